#![no_main]

weir_fuzz::packet_target!(ConnAck, V5);
