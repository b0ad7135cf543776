//! Columns of whole numbers, lists of them, and texts, as Apache Parquet and back.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

/// Most rows of a file: a reader takes no more, whatever the file says.
const MOST_ROWS: usize = 1 << 20;

/// The values of a column, one for each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Whole numbers, where there are some.
    Optional(Vec<Option<u64>>),
    /// Lists of whole numbers.
    Lists(Vec<Vec<u64>>),
    /// Texts, where there are some.
    Text(Vec<Option<String>>),
}

/// What a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    Optional,
    Lists,
    Text,
}

impl Column {
    pub(crate) const fn shape(&self) -> Shape {
        match self {
            Self::Whole(_) => Shape::Whole,
            Self::Optional(_) => Shape::Optional,
            Self::Lists(_) => Shape::Lists,
            Self::Text(_) => Shape::Text,
        }
    }

    fn empty(shape: Shape) -> Self {
        match shape {
            Shape::Whole => Self::Whole(Vec::new()),
            Shape::Optional => Self::Optional(Vec::new()),
            Shape::Lists => Self::Lists(Vec::new()),
            Shape::Text => Self::Text(Vec::new()),
        }
    }

    /// The numbers that are there, one after the other.
    fn numbers(&self) -> Vec<i64> {
        let signed = |value: &u64| value.cast_signed();
        match self {
            Self::Whole(values) => values.iter().map(signed).collect(),
            Self::Optional(values) => values.iter().flatten().map(signed).collect(),
            Self::Lists(lists) => lists.iter().flatten().map(signed).collect(),
            Self::Text(_) => Vec::new(),
        }
    }

    /// Definition levels, and repetition levels: for each row, or value of a list, whether it is there
    /// and whether it goes on in the list of the one before.
    fn levels(&self) -> (Option<Vec<i16>>, Option<Vec<i16>>) {
        match self {
            Self::Whole(_) => (None, None),
            Self::Optional(values) => {
                let there = values.iter().map(|value| value.is_some().into());
                (Some(there.collect()), None)
            }
            Self::Text(texts) => {
                let there = texts.iter().map(|text| text.is_some().into());
                (Some(there.collect()), None)
            }
            Self::Lists(lists) => {
                let (mut there, mut goes_on) = (Vec::new(), Vec::new());
                for list in lists {
                    there.push(i16::from(!list.is_empty()));
                    goes_on.push(0);
                    for _ in 1..list.len() {
                        there.push(1);
                        goes_on.push(1);
                    }
                }
                (Some(there), Some(goes_on))
            }
        }
    }

    /// Whether a dictionary of its values is smaller than their differences.
    fn is_of_few_values(&self) -> bool {
        let numbers = self.numbers();
        let different: HashSet<_> = numbers.iter().collect();
        different.len() <= 2 + numbers.len() / 16
    }
}

fn schema<'n>(columns: impl Iterator<Item = (&'n str, Shape)>) -> Result<Type, ParquetError> {
    let fields = columns.map(|(name, shape)| {
        let (physical, repetition, converted) = match shape {
            Shape::Whole => (
                PhysicalType::INT64,
                Repetition::REQUIRED,
                ConvertedType::UINT_64,
            ),
            Shape::Optional => (
                PhysicalType::INT64,
                Repetition::OPTIONAL,
                ConvertedType::UINT_64,
            ),
            Shape::Lists => (
                PhysicalType::INT64,
                Repetition::REPEATED,
                ConvertedType::UINT_64,
            ),
            Shape::Text => (
                PhysicalType::BYTE_ARRAY,
                Repetition::OPTIONAL,
                ConvertedType::UTF8,
            ),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted);
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("recording")
        .with_fields(fields)
        .build()
}

/// Writes columns of equal length; the same columns give the same bytes.
pub(crate) fn write(columns: &[(String, Column)]) -> Result<Vec<u8>, ParquetError> {
    let shapes = columns.iter().map(|(name, c)| (name.as_str(), c.shape()));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(false);
    for (name, column) in columns {
        let path = ColumnPath::from(name.as_str());
        let is_text = column.shape() == Shape::Text;
        properties = if is_text || column.is_of_few_values() {
            properties.set_column_dictionary_enabled(path, true)
        } else {
            properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
        };
    }
    let mut file = SerializedFileWriter::new(
        Vec::new(),
        Arc::new(schema(shapes)?),
        Arc::new(properties.build()),
    )?;
    let mut group = file.next_row_group()?;
    let mut unwritten = columns.iter();
    while let (Some(mut writer), Some((_, column))) = (group.next_column()?, unwritten.next()) {
        let (there, goes_on) = column.levels();
        match (writer.untyped(), column) {
            (ColumnWriter::ByteArrayColumnWriter(writer), Column::Text(texts)) => {
                let texts = texts.iter().flatten();
                let values: Vec<ByteArray> = texts.map(|text| text.as_str().into()).collect();
                writer.write_batch(&values, there.as_deref(), goes_on.as_deref())?;
            }
            (ColumnWriter::Int64ColumnWriter(writer), numbers) => {
                let values = numbers.numbers();
                writer.write_batch(&values, there.as_deref(), goes_on.as_deref())?;
            }
            _ => return Err(ParquetError::General("a column of another type".to_owned())),
        }
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// Reads the columns of these names and shapes.
pub(crate) fn read(
    bytes: Vec<u8>,
    expected: &[(String, Shape)],
) -> Result<Vec<Column>, ParquetError> {
    let file = SerializedFileReader::new(Bytes::from(bytes))?;
    let wanted = schema(expected.iter().map(|(name, shape)| (name.as_str(), *shape)))?;
    if file.metadata().file_metadata().schema().get_fields() != wanted.get_fields() {
        return Err(malformed("the columns are not those of a recording"));
    }
    let mut columns: Vec<_> = expected
        .iter()
        .map(|(_, shape)| Column::empty(*shape))
        .collect();
    let mut rows = 0;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        let count = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        if count > MOST_ROWS - rows {
            return Err(malformed("too many rows"));
        }
        rows += count;
        for (index, column) in columns.iter_mut().enumerate() {
            read_column(group.get_column_reader(index)?, column, count)?;
        }
    }
    Ok(columns)
}

fn read_column(reader: ColumnReader, column: &mut Column, rows: usize) -> Result<(), ParquetError> {
    match (reader, column) {
        (reader @ ColumnReader::Int64ColumnReader(_), Column::Whole(values)) => {
            let (numbers, _, _) = records::<Int64Type>(reader, rows)?;
            values.extend(numbers.into_iter().map(i64::cast_unsigned));
        }
        (reader @ ColumnReader::Int64ColumnReader(_), Column::Optional(values)) => {
            let (numbers, there, _) = records::<Int64Type>(reader, rows)?;
            let mut numbers = numbers.into_iter().map(i64::cast_unsigned);
            values.extend(there.iter().map(|level| numbers.by_ref().next_if(*level)));
        }
        (reader @ ColumnReader::Int64ColumnReader(_), Column::Lists(lists)) => {
            let (numbers, there, goes_on) = records::<Int64Type>(reader, rows)?;
            let mut numbers = numbers.into_iter().map(i64::cast_unsigned);
            for (there, goes_on) in there.iter().zip(&goes_on) {
                if *goes_on == 0 {
                    lists.push(Vec::new());
                }
                let value = numbers.by_ref().next_if(*there);
                if let Some(list) = lists.last_mut() {
                    list.extend(value);
                }
            }
        }
        (reader @ ColumnReader::ByteArrayColumnReader(_), Column::Text(texts)) => {
            let (values, there, _) = records::<ByteArrayType>(reader, rows)?;
            let mut values = values.into_iter();
            for level in &there {
                let text = values.by_ref().next_if(*level);
                let text = text.map(|text| text.as_utf8().map(str::to_owned));
                texts.push(text.transpose()?);
            }
        }
        _ => return Err(malformed("a column of another type")),
    }
    Ok(())
}

/// The next value, if the definition level says that one is there.
trait NextIf: Iterator {
    fn next_if(&mut self, level: i16) -> Option<Self::Item>;
}

impl<I: Iterator> NextIf for I {
    fn next_if(&mut self, level: i16) -> Option<I::Item> {
        if level > 0 { self.next() } else { None }
    }
}

/// Values, definition levels and repetition levels.
type Levels<T> = (Vec<T>, Vec<i16>, Vec<i16>);

/// The values of all rows, and their levels.
fn records<T: DataType>(reader: ColumnReader, rows: usize) -> Result<Levels<T::T>, ParquetError> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut values, mut there, mut goes_on) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) = reader.read_records(
            rows - read,
            Some(&mut there),
            Some(&mut goes_on),
            &mut values,
        )?;
        if records == 0 {
            return Err(malformed("a column is shorter than the file says"));
        }
        read += records;
    }
    Ok((values, there, goes_on))
}

fn malformed(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}
