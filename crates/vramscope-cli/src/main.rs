//! temporary
fn main(){}
