//! Opening: what is there, what was torn, and what is damaged.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::crypt::FileKey;
use crate::disk::{Disk, File, Open};
use crate::record::{self, HEADER_BYTES, Identity};

use super::format::{ALIGN, Body, DATA_START, HEADER_COPY, Header, HeaderFault, VERSION, aligned};
use super::groups::Table;
use super::read::unseal;
use super::segment::{Name, Place, Segment, Spare, key_context, parent, segment_name, spare_name};
use super::{Damage, Error, Options, Record, Report, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SPARES_MAX, Wal};

/// What is read at once.
const READ_BYTES: usize = 1 << 20;
/// What is given up at once where reading fails.
const UNREADABLE_BYTES: usize = 4096;
/// Damaged parts and gaps that a report lists; there may be more.
const REPORT_ITEMS_MAX: usize = 10_000;

impl Wal {
    /// Opens the log in a directory, which is created if it is not there (the directory above it is not), and hands all records that are not recycled to `visit`, in
    /// the order in which they were appended: void and released entries too, and those of groups that a later record removes.
    ///
    /// Damage is no error: it is in the report, and the owner decides what becomes of the groups. A missing key is one, and so is a disk that
    /// fails; then nothing was changed that matters. The log does not remember damage once its segment is recycled.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        visit: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Self, Report), Error> {
        disk.create_dir_all(directory)?;
        disk.sync_dir(parent(directory))?;
        disk.sync_dir(directory)?;
        let segment_bytes = options.segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let mut wal = Self {
            disk,
            directory: directory.to_owned(),
            options: Options { segment_bytes, ..options },
            table: Table::default(),
            spares: VecDeque::new(),
            floor: 1,
            buffer: Vec::new(),
            written: 0,
            synced: 0,
            marked: 0,
            failure: None,
        };
        let sequences = wal.list()?;
        let found = sequences.iter().map(|sequence| wal.look(*sequence)).collect::<Result<Vec<_>, _>>()?;
        found.iter().try_for_each(|found| wal.rewrap(found))?;
        let recovery = Recovery { wal: &mut wal, report: Report::default(), visit, bytes: Vec::new() };
        let report = recovery.run(found)?;
        Ok((wal, report))
    }

    /// Sequences of the segments, ascending. Notes the spare files and removes those that are too many or must not be used.
    fn list(&mut self) -> Result<Vec<u64>, Error> {
        let mut sequences = Vec::new();
        let mut has_removed = false;
        for name in self.disk.list(&self.directory)? {
            match Name::parse(&name) {
                Some(Name::Segment(sequence)) => sequences.push(sequence),
                // A sealed log keeps no spare files: they may hold clear text of a time before.
                Some(Name::Spare(_)) if self.options.crypt.is_some() || self.spares.len() >= SPARES_MAX => {
                    self.disk.remove_file(&self.path(&name))?;
                    has_removed = true;
                }
                Some(Name::Spare(number)) => {
                    let len = self.disk.open(&self.path(&spare_name(number)), Open::Read)?.len()?;
                    self.spares.push_back(Spare { number, len });
                }
                None => {}
            }
        }
        if has_removed {
            self.disk.sync_dir(&self.directory)?;
        }
        sequences.sort_unstable();
        Ok(sequences)
    }

    /// Opens a segment and reads its header.
    fn look(&self, sequence: u64) -> Result<Found, Error> {
        let file = self.disk.open(&self.path(&segment_name(sequence)), Open::Write)?;
        let len = file.len()?;
        let mut page = Vec::new();
        read_all(&*file, len.min(DATA_START), &mut page);
        let header = match Header::decode(&page, sequence) {
            Ok(header) => Some(header),
            Err(HeaderFault::Damaged) => None,
            Err(HeaderFault::Version(found)) => {
                return Err(Error::Version { segment: sequence, found, known: VERSION });
            }
        };
        let key = match (header.as_ref().and_then(|header| header.envelope.as_ref()), &self.options.crypt) {
            (None, _) => None,
            (Some(_), None) => return Err(Error::NoKey { segment: sequence }),
            (Some(envelope), Some(ring)) => {
                let key = ring.open(&key_context(sequence), envelope);
                Some(key.map_err(|source| Error::Key { segment: sequence, source })?)
            }
        };
        Ok(Found { sequence, file, len, header, key })
    }

    /// Wraps the key of a segment anew if the former key of the log did, which may be taken out of the configuration then. One copy of the header after
    /// the other, so that one of them can be read whenever the power goes.
    fn rewrap(&self, found: &Found) -> Result<(), Error> {
        let (Some(header), Some(key), Some(ring)) = (&found.header, &found.key, &self.options.crypt) else {
            return Ok(());
        };
        if !key.is_previous() {
            return Ok(());
        }
        let envelope = Some(ring.rewrap(&key_context(found.sequence), key));
        let page = Header { envelope, ..*header }.encode();
        // The first copy is what says that both have to be written: it comes last.
        for at in [HEADER_COPY, 0] {
            found.file.write_at(&page[at..at + HEADER_COPY], at as u64)?;
            found.file.sync()?;
        }
        Ok(())
    }
}

/// A segment that is there.
struct Found {
    sequence: u64,
    file: Arc<dyn File>,
    len: u64,
    header: Option<Header>,
    key: Option<FileKey>,
}

/// Where the frames of a segment end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The next segment says it.
    Known(u64),
    /// It has to be found.
    Open,
}

/// What reading one segment gave.
#[derive(Debug, Default)]
struct Outcome {
    /// Behind the last frame.
    end: u64,
    /// The segment that follows, if it was closed.
    next: Option<u64>,
    /// Up to here it is known to have been synced.
    proven: u64,
    /// Is there anything in it that the log needs?
    has_records: bool,
}

/// The newest segment that was found.
struct Last {
    sequence: u64,
    /// The segment before and where that ends, unless the header is lost.
    link: Option<(u64, u64)>,
    outcome: Outcome,
}

struct Recovery<'a> {
    wal: &'a mut Wal,
    report: Report,
    visit: &'a mut dyn FnMut(Record<'_>),
    /// Of the segment that is read.
    bytes: Vec<u8>,
}

impl Recovery<'_> {
    fn run(mut self, found: Vec<Found>) -> Result<Report, Error> {
        self.report.segments = found.len();
        let oldest = found.first().map(|found| found.sequence);
        let links: Vec<Option<(u64, u64)>> = found
            .iter()
            .skip(1)
            .map(|next| next.header.as_ref().map(|header| (header.previous, header.previous_end)))
            .collect();
        let count = found.len();
        let mut last = None;
        for (at, found) in found.into_iter().enumerate() {
            let sequence = found.sequence;
            let previous = self.wal.table.segments.back().map(|segment| segment.sequence);
            if let Some(previous) = previous.filter(|previous| previous + 1 < sequence) {
                self.report_missing(previous + 1, sequence - 1);
            }
            let next = links.get(at).copied().flatten().filter(|(previous, _)| *previous == sequence);
            let end = next.map_or(End::Open, |(_, end)| End::Known(end));
            let link = found.header.as_ref().map(|header| (header.previous, header.previous_end));
            let outcome = self.take(found, end);
            if at + 1 < count && end == End::Open && outcome.next.is_none() {
                let reason = "others follow and it has no end".to_owned();
                self.report_damage(sequence, None, reason);
            }
            last = Some(Last { sequence, link, outcome });
        }
        if let Some(oldest) = oldest.filter(|oldest| *oldest > self.wal.floor) {
            self.report_missing(self.wal.floor, oldest - 1);
        }
        self.report.gaps = self.wal.table.gaps();
        self.report.gaps.truncate(REPORT_ITEMS_MAX);
        self.go_on(last)?;
        Ok(self.report)
    }

    /// Reads a segment and makes it the newest one.
    fn take(&mut self, found: Found, end: End) -> Outcome {
        let Found { sequence, file, len, header, key } = found;
        let identity = header.as_ref().map_or_else(|| Identity::new(&[]), Header::identity);
        if let Some(header) = &header {
            self.wal.floor = self.wal.floor.max(header.floor);
        }
        let groups = Vec::new();
        let segment = Segment { sequence, identity, file, key: None, len, end: DATA_START, live: 0, groups };
        self.wal.table.push_segment(segment);
        let outcome = if header.is_some() {
            let mut bytes = std::mem::take(&mut self.bytes);
            let unreadable = read_all(&*self.wal.table.newest().file, len, &mut bytes);
            let scan = Scan { bytes: &bytes, identity, key: key.as_ref(), sequence, unreadable };
            let outcome = self.scan(&scan, end);
            self.bytes = bytes;
            outcome
        } else {
            self.report_damage(sequence, None, "its header does not verify".to_owned());
            Outcome::default()
        };
        let segment = self.wal.table.newest_mut();
        segment.key = key;
        segment.end = outcome.end;
        outcome
    }

    /// Goes through the frames of a segment.
    fn scan(&mut self, scan: &Scan<'_>, end: End) -> Outcome {
        let len = scan.bytes.len() as u64;
        let limit = if let End::Known(end) = end { end.min(len) } else { len };
        let mut outcome = Outcome { proven: DATA_START, ..Outcome::default() };
        let mut survey: Option<Survey> = None;
        let mut offset = DATA_START;
        while offset < limit {
            let (body, next) = match scan.frame(offset, limit) {
                Ok(found) => found,
                Err(reason) => {
                    let survey = *survey.get_or_insert_with(|| scan.survey(offset, limit, end));
                    if offset >= survey.proven {
                        self.report.torn_bytes += survey.end.saturating_sub(offset);
                        break;
                    }
                    outcome.proven = survey.proven.min(limit);
                    let next =
                        scan.next(offset + ALIGN as u64, limit).unwrap_or_else(|| limit.min(survey.proven));
                    let range = offset..next.max(offset);
                    self.report_damage(scan.sequence, Some(range.clone()), scan.reason(&range, reason));
                    self.wal.table.set_barrier(next);
                    offset = next.max(offset + ALIGN as u64);
                    continue;
                }
            };
            match Body::decode(&body) {
                Some(Body::Record(record)) => {
                    outcome.has_records = true;
                    self.hand_out(&record, offset);
                }
                Some(Body::Mark(synced)) => outcome.proven = outcome.proven.max(synced),
                Some(Body::Floor(floor)) => self.wal.floor = self.wal.floor.max(floor),
                Some(Body::Closed(next)) => {
                    outcome.next = Some(next);
                    outcome.proven = offset;
                    break;
                }
                None => {
                    let reason = "a body of no kind".to_owned();
                    self.report_damage(scan.sequence, Some(offset..next), reason);
                }
            }
            offset = next;
        }
        outcome.end = offset;
        if let End::Known(end) = end.min_missing(len) {
            self.report_damage(scan.sequence, Some(len..end), format!("the file ends at {len}"));
        }
        outcome
    }

    fn hand_out(&mut self, record: &Record<'_>, offset: u64) {
        self.report.records += 1;
        self.wal.table.note(record, offset);
        (self.visit)(*record);
    }

    /// Begins the segment that is written from now on, behind the last one that is there.
    fn go_on(&mut self, last: Option<Last>) -> Result<(), Error> {
        let Some(Last { sequence, link, outcome }) = last else {
            return self.wal.start_segment(Place { sequence: self.wal.floor, previous: 0, previous_end: 0 });
        };
        if let Some(missing) = outcome.next {
            self.report_missing(missing, missing);
        }
        let is_untouched = !outcome.has_records && outcome.next.is_none();
        if let Some((previous, previous_end)) = link.filter(|_| is_untouched && self.is_sound(sequence)) {
            self.wal.table.segments.pop_back();
            return self.wal.start_segment(Place { sequence, previous, previous_end });
        }
        if link.is_some() {
            self.trust(&outcome)?;
        }
        let next = outcome.next.unwrap_or(sequence) + 1;
        self.wal.start_segment(Place { sequence: next, previous: sequence, previous_end: outcome.end })?;
        if link.is_some() && outcome.next.is_none() {
            self.wal.close_segment(sequence, next)?;
        }
        Ok(())
    }

    fn is_sound(&self, sequence: u64) -> bool {
        self.report.damage.iter().all(|damage| damage.segment != sequence)
    }

    /// Puts on stable storage what the newest segment shows and may not have there.
    fn trust(&self, outcome: &Outcome) -> Result<(), Error> {
        let file = &self.wal.table.newest().file;
        let len = self.bytes.len() as u64;
        let bytes =
            self.bytes.get(outcome.proven as usize..outcome.end.min(len) as usize).unwrap_or_default();
        if !bytes.is_empty() {
            file.write_at(bytes, outcome.proven)?;
        }
        if outcome.end > len {
            // The padding behind the last frame was torn off.
            file.write_at(&vec![0; (outcome.end - len) as usize], len)?;
        }
        file.sync()?;
        Ok(())
    }

    fn report_damage(&mut self, segment: u64, range: Option<Range<u64>>, reason: String) {
        if self.report.damage.len() < REPORT_ITEMS_MAX {
            let file = segment_name(segment);
            self.report.damage.push(Damage { segment, file, range, reason });
        }
    }

    fn report_missing(&mut self, first: u64, last: u64) {
        let reason = match first == last {
            true => "the file is missing".to_owned(),
            false => format!("it is missing, and so are all to {}", segment_name(last)),
        };
        self.report_damage(first, None, reason);
    }
}

impl End {
    /// The same, if a file of this length does not reach it.
    fn min_missing(self, len: u64) -> Self {
        match self {
            Self::Known(end) if len < end => self,
            _ => Self::Open,
        }
    }
}

/// What later frames say about a place that does not verify.
#[derive(Debug, Clone, Copy)]
struct Survey {
    /// Everything before was synced.
    proven: u64,
    /// End of the last thing that is recognised.
    end: u64,
}

/// The bytes of a segment.
struct Scan<'a> {
    bytes: &'a [u8],
    identity: Identity,
    key: Option<&'a FileKey>,
    sequence: u64,
    /// Where reading failed, ascending, and why.
    unreadable: Vec<(Range<u64>, String)>,
}

impl Scan<'_> {
    /// Body of the frame at the offset, and where the next one begins.
    fn frame(&self, offset: u64, limit: u64) -> Result<(Cow<'_, [u8]>, u64), String> {
        let bytes = &self.bytes[offset as usize..limit as usize];
        let body = record::decode(bytes, self.identity, offset).map_err(|fault| fault.to_string())?;
        let next = offset + aligned(HEADER_BYTES + body.len()) as u64;
        Ok((unseal(self.key, self.sequence, offset, body)?, next))
    }

    /// The first place from `offset` on where a frame verifies.
    fn next(&self, offset: u64, limit: u64) -> Option<u64> {
        let mut places = (offset..limit).step_by(ALIGN);
        places.find(|at| {
            let bytes = &self.bytes[*at as usize..limit as usize];
            record::decode(bytes, self.identity, *at).is_ok()
        })
    }

    /// Looks at everything behind a place that does not verify.
    fn survey(&self, offset: u64, limit: u64, end: End) -> Survey {
        let bytes = &self.bytes[offset as usize..limit as usize];
        let length = record::body_length(bytes, self.identity, offset);
        let own_end = length.map_or(offset, |length| (offset + (HEADER_BYTES + length) as u64).min(limit));
        let mut survey = Survey { proven: 0, end: own_end };
        if let End::Known(end) = end {
            survey.proven = end;
            return survey;
        }
        let mut from = offset + ALIGN as u64;
        while let Some(at) = self.next(from, limit) {
            from = at + ALIGN as u64;
            let Ok((body, next)) = self.frame(at, limit) else { continue };
            match Body::decode(&body) {
                Some(Body::Mark(synced)) => survey.proven = survey.proven.max(synced),
                Some(Body::Closed(_)) => survey.proven = survey.proven.max(at),
                _ => {}
            }
            survey.end = survey.end.max(next);
            from = next;
        }
        // Nobody knows what stood where reading fails.
        if let Some((range, _)) = self.unreadable.last() {
            survey.proven = survey.proven.max(range.end);
        }
        survey
    }

    /// Why a range is damaged, given what was found at its beginning.
    fn reason(&self, range: &Range<u64>, found: String) -> String {
        let overlap = self
            .unreadable
            .iter()
            .find(|(unreadable, _)| unreadable.start < range.end && range.start < unreadable.end);
        overlap.map_or(found, |(_, reason)| reason.clone())
    }
}

/// Reads the first `len` bytes of a file. What cannot be read becomes zeros; returns those ranges and why.
fn read_all(file: &dyn File, len: u64, bytes: &mut Vec<u8>) -> Vec<(Range<u64>, String)> {
    bytes.clear();
    bytes.resize(len as usize, 0);
    let mut unreadable = Vec::new();
    for (piece, large) in bytes.chunks_mut(READ_BYTES).enumerate() {
        let start = (piece * READ_BYTES) as u64;
        if read_piece(file, large, start).is_ok() {
            continue;
        }
        for (piece, small) in large.chunks_mut(UNREADABLE_BYTES).enumerate() {
            let start = start + (piece * UNREADABLE_BYTES) as u64;
            if let Err(reason) = read_piece(file, small, start) {
                small.fill(0);
                unreadable.push((start..start + small.len() as u64, reason));
            }
        }
    }
    unreadable
}

fn read_piece(file: &dyn File, buffer: &mut [u8], start: u64) -> Result<(), String> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read = file.read_at(&mut buffer[filled..], start + filled as u64);
        match read.map_err(|error| error.to_string())? {
            0 => return Err(format!("nothing can be read at {}", start + filled as u64)),
            count => filled += count,
        }
    }
    Ok(())
}
