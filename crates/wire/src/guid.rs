//! The text form of a 128-bit id: 32 hexadecimal digits in five groups, as printed by .NET.

/// `9add301b-c26f-4d9c-9921-264fad181c6b`: lower case, in byte order.
pub fn guid_text(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).expect("a digit below 16"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_printed_in_five_groups() {
        let bytes = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff";
        assert_eq!(guid_text(bytes), "00010203-0405-0607-0809-0a0b0c0d0eff");
    }
}
