//! The committed page is what the code says.

#[test]
fn the_page_of_formats_and_types_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/formats.md"
    );
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, format::type_table()).expect("the page can be written");
    }
    let page = std::fs::read_to_string(path).expect("the page can be read");
    assert_eq!(page, format::type_table(), "run with UPDATE_EXPECT=1");
}
