#![no_main]

weir_fuzz::packet_target!(PubRel, V5);
