#![no_main]

weir_fuzz::packet_target!(UnsubAck, V5);
