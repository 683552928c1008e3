//! Seeds of the fuzz targets of who may come in: `fuzz/corpus/claims`, `access_files`.

use std::path::Path;

const CLAIMS: [&str; 4] = [
    "c1\nann\n{\"sub\":\"ann\",\"exp\":1900000000,\"dev\":\"c1\",\"acl\":[{\"permission\":\"deny\",\
     \"action\":\"publish\",\"topic\":\"a/${username}/#\"},{\"permission\":\"allow\",\"action\":\
     \"all\",\"topics\":[\"%c/+\",\"eq t/%u\"],\"qos\":[0,1],\"retain\":\"all\"}]}",
    "c1\n\n{\"sub\":\"x\",\"exp\":1.9e9,\"nbf\":1700000000,\"iat\":0.5,\"dev\":\"c1\",\"acl\":\
     {\"pub\":[\"a\"],\"sub\":[\"b/${clientid}\"],\"all\":[\"#\"]}}",
    "#\n+\n{\"sub\":\"y\",\"exp\":18446744073709551615,\"dev\":\"#\",\"acl\":[]}",
    "$SYS\na/b\n{\"sub\":\"$x\",\"exp\":2e9,\"dev\":\"$SYS\",\"acl\":[{\"permission\":\"allow\",\
     \"action\":\"subscribe\",\"topic\":\"${clientid}/%u\"}]}",
];

const FILES: [&str; 6] = [
    "0ann:$7$101$c2FsdA==$7Yr9JtqxCMo0e3QaXK0KWYbBVgVbLr8ol9Zz6bTPIk0=\n",
    "0bob:$6$c2FsdA==$c2FsdA==\n# x\neve:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g\n",
    "1user ann\ntopic readwrite a/#\ntopic deny b c\npattern read %c/%u\n",
    "1topic a\n\n  pattern write $x/+\r\n",
    "2address 192.0.2.0/24 until 2030-01-31T12:00:00Z\naddress ::ffff:1.2.3.4/120\n",
    "2client a b\nuser ann until 2999-01-01T00:00:00+02:00\n# x\naddress 2001:db8::/32\n",
];

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, seeds) in [("claims", CLAIMS.as_slice()), ("access_files", FILES.as_slice())] {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
