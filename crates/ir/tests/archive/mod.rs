//! Writes the least zip that holds entries as PyTorch does.

/// A zip of these entries, stored as they are.
pub(crate) fn stored_zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (vec![], vec![]);
    for (name, data) in entries {
        let at = file.len() as u32;
        let size = data.len() as u32;
        // From the version needed to the length of the extra field.
        let mut common = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        file.extend([b"PK\x03\x04", &common[..], name.as_bytes(), data].concat());
        directory.extend([b"PK\x01\x02\0\0", &common[..], &[0; 10], &at.to_le_bytes(), name.as_bytes()].concat());
    }
    let (start, size, count) = (file.len() as u32, directory.len() as u32, entries.len() as u16);
    file.extend(directory);
    file.extend([&b"PK\x05\x06\0\0\0\0"[..], &count.to_le_bytes(), &count.to_le_bytes()].concat());
    file.extend([&size.to_le_bytes()[..], &start.to_le_bytes(), &[0, 0]].concat());
    file
}
