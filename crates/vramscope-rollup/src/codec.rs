//! [`Codec`]: serializes vramscope's parts of a plan for other machines.

use std::any::Any;
use std::sync::Arc;

use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::provider::Recordings;
use crate::scan::{Says, ScanData};

/// Prefix of vramscope's parts; Ballista decodes other parts. The number is the version of the following data.
const MARK: &[u8] = b"vramscope 1 ";

/// Encodes vramscope's parts as JSON after a prefix, and delegates other parts to Ballista.
#[derive(Debug)]
pub(crate) struct Codec {
    says: Says,
    logical: BallistaLogicalExtensionCodec,
    physical: BallistaPhysicalExtensionCodec,
}

impl Codec {
    pub(crate) fn new(says: Says) -> Self {
        Self { says, logical: Default::default(), physical: Default::default() }
    }
}

fn write(part: &impl Serialize, buf: &mut Vec<u8>) -> Result<()> {
    buf.extend(MARK);
    serde_json::to_writer(buf, part).map_err(|e| DataFusionError::External(e.into()))
}

/// Decodes a part with the prefix; `None` without it.
fn read<T: DeserializeOwned>(buf: &[u8]) -> Option<Result<T>> {
    let json = buf.strip_prefix(MARK)?;
    Some(serde_json::from_slice(json).map_err(|e| DataFusionError::External(e.into())))
}

impl LogicalExtensionCodec for Codec {
    fn try_decode(&self, buf: &[u8], inputs: &[LogicalPlan], ctx: &TaskContext) -> Result<Extension> {
        self.logical.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.logical.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match read(buf) {
            Some(of) => Ok(Arc::new(Recordings::new(of?, Arc::default(), self.says.clone()))),
            None => self.logical.try_decode_table_provider(buf, table, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        match (&*node as &dyn Any).downcast_ref::<Recordings>() {
            Some(recordings) => write(&recordings.of, buf),
            None => self.logical.try_encode_table_provider(table, node, buf),
        }
    }

    fn try_decode_file_format(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.logical.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(&self, buf: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.logical.try_encode_file_format(buf, node)
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match read::<ScanData>(buf) {
            Some(scan) => scan?.plan(Arc::default(), self.says.clone()),
            None => self.physical.try_decode(buf, inputs, ctx, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match ScanData::of(&*node) {
            Some(scan) => write(&scan, buf),
            None => self.physical.try_encode(node, buf, converter),
        }
    }
}

#[cfg(test)]
mod tests;
