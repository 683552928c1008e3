#![no_main]

weir_fuzz::packet_target!(Disconnect, V5);
