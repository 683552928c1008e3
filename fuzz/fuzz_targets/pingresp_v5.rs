#![no_main]

weir_fuzz::packet_target!(PingResp, V5);
