use super::*;

#[test]
fn numbers() {
    let varints = [(&[0x7f][..], 0x7f), (&[0x81, 0], 128), (&[0xff; 9], u64::MAX)];
    assert!(varints.into_iter().all(|(mut bytes, number)| varint(&mut bytes) == Some(number)));
    assert_eq!([&[0xff][..], &[0x01, 0], &[0x80, 0, 0], &[]].map(integer), [-1, 256, -0x80_0000, 0]);
    assert_eq!(varint(&mut &[0x80, 0x80][..]), None);
}

#[test]
fn columns_of_a_statement() {
    let sql = "CREATE TABLE T (  -- comment, with (commas)\n  \"id\" INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL,\n  \
               n DECIMAL(3, 4) CHECK (n > 0), PRIMARY KEY (value), [Odd] INT)";
    let (names, row_number) = columns(sql);
    assert_eq!((names, row_number), (vec!["id".into(), "value".into(), "n".into(), "odd".into()], Some(0)));
    assert_eq!(columns("CREATE TABLE"), (vec![], None));
}

/// A leaf page of `size` bytes, whose cells begin at `header`.
fn leaf(size: usize, header: usize, cell: &[u8], cells: usize) -> Vec<u8> {
    let (mut page, at) = (vec![0; size], size - cell.len());
    page[header] = 13;
    page[header + 3..header + 5].copy_from_slice(&u16::try_from(cells).unwrap().to_be_bytes());
    for pointer in page[header + 8..].chunks_exact_mut(2).take(cells) {
        pointer.copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
    }
    page[at..].copy_from_slice(cell);
    page
}

/// A database with a table `t`, whose only page has a row of `columns` empty columns, and `cells` pointers to it.
fn database(columns: u8, cells: usize) -> Vec<u8> {
    const SIZE: usize = 512;
    let sql = b"CREATE TABLE t (a)";
    let types = [6, 23, 15, 15, 1, 13 + 2 * u8::try_from(sql.len()).unwrap()];
    let row = [&types[..], b"table", b"t", b"t", &[2], sql].concat();
    let schema = [&[u8::try_from(row.len()).unwrap(), 1][..], &row].concat();
    let mut first = leaf(SIZE, 100, &schema, 1);
    first[..16].copy_from_slice(MAGIC);
    first[16..18].copy_from_slice(&u16::try_from(SIZE).unwrap().to_be_bytes());
    first[59] = 1;
    // Numbers above 127 take two bytes.
    let header = [0x81, columns + 2 - 128];
    let row = [&header[..], &vec![8; usize::from(columns)]].concat();
    let cell = [&[0x81, columns + 2 - 128, 1][..], &row].concat();
    [first, leaf(SIZE, 0, &cell, cells)].concat()
}

#[test]
fn rows_that_share_their_bytes_are_refused() {
    let rows_of = |bytes: &[u8]| {
        let database = Database::open(bytes).unwrap();
        let table = database.table("t").unwrap().unwrap();
        let (mut rows, mut values) = (0, 0);
        let read = database.rows(&table, |row| {
            rows += 1;
            values += row.len();
            true
        });
        (rows, values, read.map_err(|e| e.what))
    };
    assert_eq!(rows_of(&database(200, 1)), (1, 200, Ok(())));
    let (rows, values, read) = rows_of(&database(200, 140));
    assert_eq!(read, Err("rows of an SQLite table that share their bytes"));
    // No more values than the file has bytes.
    assert!(rows == 5 && values <= 1024, "{rows} rows, {values} values");
}

#[test]
fn values_of_a_row() {
    let mut found = Vec::new();
    // NULL, 1 (constant), an integer of two bytes, text, a blob.
    let row = [6, 0, 9, 2, 17, 14, 1, 2, b'h', b'i', 0xff];
    values(&row, |value| found.push(value.map_or(Value::Other, borrowed))).unwrap();
    let text = Value::Text("hi".into());
    assert_eq!(found, [Value::Other, Value::Int(1), Value::Int(258), text, Value::Other]);
    assert!((0..row.len()).all(|length| values(&row[..length], |_| {}).is_none()));
}
