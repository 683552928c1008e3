#![no_main]

weir_fuzz::packet_target!(SubAck, V3);
