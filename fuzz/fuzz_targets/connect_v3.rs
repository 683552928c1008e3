#![no_main]

weir_fuzz::packet_target!(Connect, V3);
