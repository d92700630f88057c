// SPDX-License-Identifier: Apache-2.0
// Rust names: a method, a generic function, a trait's method.
mod garden {
    pub struct Plant {
        pub height: u64,
    }
    pub trait Grow {
        fn grow(&mut self, by: u64) -> u64;
    }
    impl Grow for Plant {
        #[inline(never)]
        fn grow(&mut self, by: u64) -> u64 {
            self.height = self.height.wrapping_mul(3).wrapping_add(by);
            self.height
        }
    }
    #[inline(never)]
    pub fn water<T: Grow>(plant: &mut T, by: u64) -> u64 {
        plant.grow(by) + plant.grow(by + 1)
    }
}

fn main() {
    let mut plant = garden::Plant { height: std::env::args().count() as u64 };
    println!("{}", garden::water(&mut plant, 4));
}
