#![no_main]

weir_fuzz::packet_target!(PingReq, V5);
