#![no_main]

weir_fuzz::packet_target!(PubAck, V5);
