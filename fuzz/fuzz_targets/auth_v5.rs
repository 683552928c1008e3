#![no_main]

weir_fuzz::packet_target!(Auth, V5);
