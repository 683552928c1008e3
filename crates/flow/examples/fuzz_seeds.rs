//! Seeds of the fuzz targets of this crate: `fuzz/corpus/flow_expression`, `flow_payload`.

#![expect(clippy::disallowed_methods, reason = "a tool that writes files")]

use std::path::Path;

const EXPRESSIONS: [&str; 12] = [
    "has(payload.p.mcc) && has(payload.p.mnc) && has(payload.p.lac) && has(payload.p.cell_id)",
    "payload.pos.s > 80 && topic.startsWith(\"ud/\")",
    "payload.l.exists(x, x.id == 5) || payload.l.all(x, x > 1u)",
    "payload.l.map(x, x * 2).filter(x, x > 1).size() == 3",
    "payload.a ? payload.b : {\"a\": [1, -2.5, null, true], 'b': r\"\\n\"}",
    "!(qos >= 1) && retain || properties.site == 'minsk' // comment",
    "payload[\"a b\"][0].c in [1, \"two\", 3.0]",
    "string(payload.n) + \"x\" != \"\" && int(\"5\") % 2 == 1",
    "payload.l.exists_one(x, x == 1)",
    "payload.s.contains(\"\\u00e9\") && size(payload.s) <= 10",
    "b'bytes' == b\"bytes\"",
    "payload.a == 0x1F && payload.b == 1e-5",
];

const PAYLOADS: [&str; 7] = [
    include_str!("../tests/wialon.json"),
    r#"{"a":1,"a":2,"\u0061":3,"p":{"mcc":257,"mcc":1e999}}"#,
    r#"[{"a":1},[[[[[]]]]],"\ud83d\ude00\n\"\\\/",-0.5e+10,null,true,false]"#,
    r#"{"s":"abc","b":{"c":"x"},"a b":true,"tp":"ud","pos":{"s":81}}"#,
    " \t\r\n{ \"a\" : [ 1 , 2 ] } ",
    "18446744073709551616",
    "\"\u{10ffff}é\"",
];

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, seeds) in
        [("flow_expression", EXPRESSIONS.as_slice()), ("flow_payload", PAYLOADS.as_slice())]
    {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
