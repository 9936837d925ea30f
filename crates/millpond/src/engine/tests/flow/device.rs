//! What the metrics show of a device whose costs are known.

use super::*;

/// The device takes as long for a short write as for a long one, and as long for a sync. After some
/// seconds of work the gauges say so.
#[test]
fn the_gauges_show_what_the_device_takes() {
    const IO_US: u64 = 200;
    let mut world = World::new(&options(8 * MIB, 8192), IO_US, 5_000);
    let end = world.now() + 10_000_000;
    while world.now() < end {
        world.operation().unwrap();
    }
    let shown = world.shared().metrics();
    let near = |metric, least: u64, most: u64| {
        let value = shown.value(metric);
        assert!((least..=most).contains(&value), "{metric:?} is {value}, the device takes {IO_US}");
    };
    let (least, most) = (IO_US * 9 / 10, IO_US * 11 / 10);
    near(M::DeviceWriteFixedUs, least, most);
    near(M::DeviceWriteUsPerMib, 0, IO_US);
    near(M::DeviceManyWriteFixedUs, least, most);
    near(M::DeviceSyncUs, least, most);
}
