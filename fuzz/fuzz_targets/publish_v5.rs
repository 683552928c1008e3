#![no_main]

weir_fuzz::packet_target!(Publish, V5);
