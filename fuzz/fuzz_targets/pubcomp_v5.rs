#![no_main]

weir_fuzz::packet_target!(PubComp, V5);
