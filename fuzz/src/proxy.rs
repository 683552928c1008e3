//! Headers of the PROXY protocol, below a layer that gets what stands behind them.

use weir_transport::{Layers, Learnt, Scratch, TransportError, proxy};

/// All of it, or byte by byte: what is learnt and handed on is the same, every byte behind the
/// header is handed on, and nothing before it is known.
pub fn check(input: &[u8]) {
    let (whole, pieces) = (run(input, input.len().max(1)), run(input, 1));
    assert_eq!(whole.0.is_some(), pieces.0.is_some());
    if let (Some(learnt), Ok(())) = (&whole.0, &whole.2) {
        assert_eq!((Some(learnt), &whole.1), (pieces.0.as_ref(), &pieces.1));
        assert!(input.ends_with(&whole.1));
        assert!(input.len() - whole.1.len() <= proxy::HEADER_BYTES_MAX);
        assert!(learnt.name.as_ref().is_none_or(|name| !name.is_empty()));
    } else {
        assert!(whole.1.is_empty());
    }
}

type Run = (Option<Learnt>, Vec<u8>, Result<(), TransportError>);

fn run(input: &[u8], step: usize) -> Run {
    let mut layers = Layers::new([proxy::server(true)]);
    let (mut plain, mut said, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
    let mut learnt = None;
    layers.begin(&mut said, &mut scratch);
    for piece in input.chunks(step) {
        let mut bytes = piece;
        loop {
            if let Err(error) = layers.received(bytes, &mut plain, &mut said, &mut scratch) {
                return (learnt, plain, Err(error));
            }
            let Some(known) = layers.learnt() else { break };
            assert!(plain.is_empty(), "nothing is handed on before");
            (learnt, bytes) = (Some(known), &[]);
        }
        layers.shed();
    }
    assert!(said.is_empty());
    (learnt, plain, Ok(()))
}
