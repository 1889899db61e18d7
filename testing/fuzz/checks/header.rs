//! What must hold for any bytes taken for a header block.

use protocol::header;

/// Looks for every name that could be in `data`, and for some that others contain.
pub(crate) fn check(data: &[u8]) {
    if let Some(status) = header::status(data) {
        assert!(status <= 999 && data.starts_with(b"NATS/1.0 "));
    }
    let mut names: Vec<&[u8]> = vec![b"Nats-Msg-Id", b"Msg-Id", b"N", b""];
    names.extend(data.split(|byte| matches!(byte, b'\n' | b':')).take(32));
    for name in names {
        let stripped = header::strip(data, name);
        assert!(stripped.len() <= data.len());
        if let Some(value) = header::find(data, name) {
            let line = [name, b":"].concat();
            let at_line_start =
                data.windows(line.len() + 1).any(|window| window[0] == b'\n' && window[1..] == line);
            assert!(at_line_start && !value.contains(&b'\n'));
            assert_eq!(header::find(&stripped, name), None);
        } else {
            assert!(stripped == data || stripped.is_empty() && data == b"NATS/1.0\r\n\r\n");
        }
    }
    let block = header::no_responders(data);
    assert_eq!(header::status(&block), Some(503));
}
