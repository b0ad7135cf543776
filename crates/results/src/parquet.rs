//! Tables as Apache Parquet: columns of texts, whole numbers and numbers, none of them nested.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// The values of a column; a number that was not measured is `None`.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Texts.
    Text(Vec<String>),
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Numbers.
    Number(Vec<Option<f64>>),
}

/// A table: columns of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

impl Table {
    /// The columns by name, in their order.
    #[must_use]
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    pub(crate) fn text(&mut self, name: &str, values: impl Iterator<Item = String>) {
        let values = Column::Text(values.collect());
        self.columns.push((name.to_owned(), values));
    }

    pub(crate) fn whole(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        let values = Column::Whole(values.collect());
        self.columns.push((name.to_owned(), values));
    }

    pub(crate) fn number(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        let values = Column::Number(values.collect());
        self.columns.push((name.to_owned(), values));
    }

    /// Writes the table; equal tables give equal bytes.
    pub(crate) fn write(&self, out: impl Write + Send) -> Result<(), ParquetError> {
        let fields = self.columns.iter().map(|(name, column)| {
            let (physical, repetition) = match column {
                Column::Text(_) => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
                Column::Whole(_) => (PhysicalType::INT64, Repetition::REQUIRED),
                Column::Number(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
            };
            let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            let field = match column {
                Column::Text(_) => field.with_converted_type(ConvertedType::UTF8),
                Column::Whole(_) => field.with_converted_type(ConvertedType::UINT_64),
                Column::Number(_) => field,
            };
            field.build().map(Arc::new)
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("results").with_fields(fields);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let mut file = SerializedFileWriter::new(
            out,
            Arc::new(schema.build()?),
            Arc::new(properties.build()),
        )?;
        let mut rows = file.next_row_group()?;
        let mut columns = self.columns.iter();
        while let (Some(mut writer), Some((_, column))) = (rows.next_column()?, columns.next()) {
            match column {
                Column::Text(values) => {
                    let values: Vec<ByteArray> =
                        values.iter().map(|text| text.as_str().into()).collect();
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(&values, None, None)?;
                }
                Column::Whole(values) => {
                    // The bits of an unsigned number are kept: so says the converted type.
                    let values: Vec<i64> = values.iter().map(|n| n.cast_signed()).collect();
                    writer
                        .typed::<Int64Type>()
                        .write_batch(&values, None, None)?;
                }
                Column::Number(values) => {
                    let there: Vec<f64> = values.iter().copied().flatten().collect();
                    let levels: Vec<i16> = values.iter().map(|v| v.is_some().into()).collect();
                    writer
                        .typed::<DoubleType>()
                        .write_batch(&there, Some(&levels), None)?;
                }
            }
            writer.close()?;
        }
        rows.close()?;
        file.close()?;
        Ok(())
    }
}
