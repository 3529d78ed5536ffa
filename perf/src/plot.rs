//! Plots as SVG, written by hand: latency over percentiles on HDR axes, and throughput, CPU and latency over time.
//!
//! Invariants:
//! 1. Any figures make a well-formed picture: what is no number, and a curve without points, is left out.
//! 2. A broker has one colour in all plots of a scenario, by the order in which it comes.

use std::fmt::Write;

use crate::outcome::Moment;

const WIDTH: f64 = 960.0;
const PANEL_HEIGHT: f64 = 300.0;
const MARGIN_LEFT: f64 = 80.0;
const MARGIN_RIGHT: f64 = 150.0;
const MARGIN_TOP: f64 = 44.0;
const MARGIN_BOTTOM: f64 = 44.0;
const COLOURS: [&str; 8] =
    ["#1f6fb4", "#d1495b", "#2a9d5c", "#8a5fbf", "#c77d0a", "#5b6770", "#0f8b8d", "#b23a9b"];
/// The percentiles that are named on the axis.
const PERCENTILES: [(f64, &str); 7] = [
    (0.0, "0"),
    (90.0, "90"),
    (99.0, "99"),
    (99.9, "99.9"),
    (99.99, "99.99"),
    (99.999, "99.999"),
    (99.9999, "99.9999"),
];

/// The latencies of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    /// Percentile and microseconds, ascending.
    pub(crate) points: &'a [(f64, f64)],
}

/// One round over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'a> {
    pub(crate) name: &'a str,
    pub(crate) moments: &'a [Moment],
}

/// A line in a panel.
struct Line<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// How values become places.
#[derive(Clone, Copy, Debug)]
enum Scale {
    Linear {
        most: f64,
    },
    Log {
        least: f64,
        most: f64,
    },
    /// One minus the percentile, logarithmic: every nine has the same width.
    Percentile {
        nines: f64,
    },
}

impl Scale {
    /// From 0 to 1.
    fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { most } => value / most,
            Self::Log { least, most } => {
                (value.max(least) / least).log10() / (most / least).log10()
            }
            Self::Percentile { nines } => {
                let rest = (1.0 - value / 100.0).max(10_f64.powf(-nines));
                -rest.log10() / nines
            }
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(self) -> Vec<(f64, String)> {
        match self {
            Self::Linear { most } => {
                let step = step(most);
                let count = (most / step).round() as u32;
                (0..=count).map(|tick| f64::from(tick) * step).map(|at| (at, short(at))).collect()
            }
            Self::Log { least, most } => {
                let (from, to) = (least.log10().round() as i32, most.log10().round() as i32);
                (from..=to).map(|power| 10_f64.powi(power)).map(|at| (at, short(at))).collect()
            }
            Self::Percentile { nines } => PERCENTILES
                .iter()
                .take(nines as usize + 1)
                .map(|(at, name)| (*at, (*name).to_owned()))
                .collect(),
        }
    }
}

/// A round step that makes four to eight ticks.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| most / step <= 8.0).unwrap_or(most)
}

fn round_up(most: f64) -> f64 {
    let most = if most.is_finite() && 0.0 < most { most } else { 1.0 };
    let step = step(most);
    (most / step).ceil() * step
}

fn short(value: f64) -> String {
    match value {
        value if 1e9 <= value => format!("{}G", value / 1e9),
        value if 1e6 <= value => format!("{}M", value / 1e6),
        value if 1e3 <= value => format!("{}k", value / 1e3),
        value => format!("{}", (value * 1e3).round() / 1e3),
    }
}

/// Latency over percentiles.
pub(crate) fn latency(title: &str, curves: &[Curve<'_>]) -> String {
    let lines: Vec<Line<'_>> = curves
        .iter()
        .map(|curve| Line { name: curve.name, points: curve.points.to_vec() })
        .collect();
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let positive = || values().filter(|value| value.is_finite() && 0.0 < *value);
    let least = 10_f64.powf(positive().fold(1e6, f64::min).log10().floor());
    let most = 10_f64.powf(positive().fold(least * 10.0, f64::max).log10().ceil());
    let deepest = lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let deepest = deepest.filter(|at| *at < 100.0).fold(99.0, f64::max);
    let nines = (-(1.0 - deepest / 100.0).log10()).ceil().clamp(2.0, 6.0);
    let mut picture = Picture::new(title, 1);
    picture.panel(
        "percentile",
        "latency, µs",
        Scale::Percentile { nines },
        Scale::Log { least, most: most.max(least * 10.0) },
        &lines,
    );
    picture.end()
}

/// Throughput, CPU and latency over time.
pub(crate) fn over_time(title: &str, courses: &[Course<'_>]) -> String {
    let lines = |value: fn(&Moment) -> f64| -> Vec<Line<'_>> {
        courses
            .iter()
            .map(|course| Line {
                name: course.name,
                points: course
                    .moments
                    .iter()
                    .map(|moment| (moment.at_seconds, value(moment)))
                    .collect(),
            })
            .collect()
    };
    let panels: [(&str, Vec<Line<'_>>); 4] = [
        ("requests/s", lines(|moment| moment.requests_per_second)),
        ("MB/s", lines(|moment| moment.bytes_per_second / 1e6)),
        ("broker, cores", lines(|moment| moment.broker_cores)),
        ("p99, ms", lines(|moment| moment.p99_us / 1e3)),
    ];
    let seconds = courses.iter().flat_map(|course| course.moments.last());
    let seconds = seconds.map(|moment| moment.at_seconds).fold(1.0, f64::max);
    let mut picture = Picture::new(title, panels.len());
    for (name, lines) in &panels {
        let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let most = round_up(most.filter(|value| value.is_finite()).fold(0.0, f64::max));
        let (x, y) = (Scale::Linear { most: round_up(seconds) }, Scale::Linear { most });
        picture.panel("seconds", name, x, y, lines);
    }
    picture.end()
}

/// A picture under construction.
struct Picture {
    svg: String,
    top: f64,
}

impl Picture {
    fn new(title: &str, panels: usize) -> Self {
        let height = PANEL_HEIGHT * panels as f64 + 30.0;
        let mut picture = Self { svg: String::new(), top: 30.0 };
        picture.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{MARGIN_LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
            escaped(title.trim())
        ));
        picture
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.svg.write_fmt(text).expect("strings take text");
    }

    fn panel(&mut self, x_name: &str, y_name: &str, x: Scale, y: Scale, lines: &[Line<'_>]) {
        let (left, right) = (MARGIN_LEFT, WIDTH - MARGIN_RIGHT);
        let (top, bottom) = (self.top + MARGIN_TOP / 2.0, self.top + PANEL_HEIGHT - MARGIN_BOTTOM);
        let across = |value: f64| left + x.place(value) * (right - left);
        let up = |value: f64| bottom - y.place(value) * (bottom - top);
        for (value, name) in x.ticks() {
            let at = across(value);
            self.put(format_args!(
                "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" stroke=\"#e3e3e3\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\n",
                bottom + 16.0
            ));
        }
        for (value, name) in y.ticks() {
            let at = up(value);
            self.put(format_args!(
                "<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"#e3e3e3\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
                left - 6.0,
                at + 4.0
            ));
        }
        self.put(format_args!(
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#444\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>\n",
            f64::midpoint(left, right),
            bottom + 34.0,
            escaped(x_name),
            left + 4.0,
            top - 6.0,
            escaped(y_name)
        ));
        let mut names: Vec<&str> = Vec::new();
        for line in lines {
            let known = names.iter().position(|name| *name == line.name);
            let colour = COLOURS[known.unwrap_or(names.len()) % COLOURS.len()];
            self.path(line, colour, across, up);
            if known.is_none() {
                let at = top + 14.0 + names.len() as f64 * 18.0;
                names.push(line.name);
                self.put(format_args!(
                    "<path d=\"M{:.1} {:.1}h18\" stroke=\"{colour}\" stroke-width=\"3\"/>\
                     <text x=\"{:.1}\" y=\"{at:.1}\">{}</text>\n",
                    right + 12.0,
                    at - 4.0,
                    right + 36.0,
                    escaped(line.name)
                ));
            }
        }
        self.top += PANEL_HEIGHT;
    }

    fn path(
        &mut self,
        line: &Line<'_>,
        colour: &str,
        across: impl Fn(f64) -> f64,
        up: impl Fn(f64) -> f64,
    ) {
        let mut path = String::new();
        for &(x, y) in line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let step = if path.is_empty() { 'M' } else { 'L' };
            write!(path, "{step}{:.1} {:.1}", across(x), up(y)).expect("strings take text");
        }
        if !path.is_empty() {
            self.put(format_args!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-opacity=\"0.8\"/>\n"
            ));
        }
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pictures are well-formed whatever comes in. Method: odd figures; tags counted, and no number that is none.
    #[test]
    fn well_formed() {
        let check = |svg: &str, lines: usize| {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
            assert_eq!(svg.matches("stroke-opacity").count(), lines, "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        };
        let good = [(0.0, 50.0), (50.0, 60.0), (99.0, 700.0), (99.99, 9_000.0), (100.0, 12_000.0)];
        let odd = [(50.0, f64::NAN), (100.0, 0.0)];
        let curve = |name, points| Curve { name, points };
        check(&latency("a < b & c", &[curve("one", &good), curve("two", &odd)]), 2);
        check(&latency("none", &[]), 0);
        check(&latency("empty", &[curve("one", &[])]), 0);
        let moment = |at_seconds| Moment { at_seconds, p99_us: 5.0, ..Moment::default() };
        let moments = [moment(1.0), moment(2.0)];
        check(&over_time("t", &[Course { name: "one", moments: &moments }]), 4);
        check(&over_time("t", &[]), 0);
    }

    /// Goal: nines are evenly spaced, scales keep within their panel. Method: places of known values.
    #[test]
    fn scales() {
        let scale = Scale::Percentile { nines: 4.0 };
        for (value, expected) in [(0.0, 0.0), (90.0, 0.25), (99.0, 0.5), (99.99, 1.0), (100.0, 1.0)]
        {
            assert!((scale.place(value) - expected).abs() < 1e-6, "{value}");
        }
        let log = Scale::Log { least: 10.0, most: 1_000.0 };
        assert!((log.place(100.0) - 0.5).abs() < 1e-9);
        assert!(log.place(1.0).abs() < 1e-9);
        assert_eq!(log.ticks().len(), 3);
        assert!((round_up(93.0) - 100.0).abs() < 1e-9);
        assert_eq!(short(2_500_000.0), "2.5M");
    }
}
