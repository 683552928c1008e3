#![no_main]

weir_fuzz::packet_target!(Subscribe, V3);
