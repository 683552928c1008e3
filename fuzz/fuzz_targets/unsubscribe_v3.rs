#![no_main]

weir_fuzz::packet_target!(Unsubscribe, V3);
