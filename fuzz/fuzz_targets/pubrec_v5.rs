#![no_main]

weir_fuzz::packet_target!(PubRec, V5);
