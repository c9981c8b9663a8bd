import {
  byVersion,
  framed,
  type Layout,
  list,
  mapped,
  named,
  properties,
  record,
  rest,
  text,
  u8,
  u16,
  u32,
  u64,
  zeros,
} from '../layout.ts';

/** Fill levels at which the switch notifies the controller, in percent. Source: OpenFlow 1.4 `ofp_table_mod_prop_vacancy`. */
const vacancy = record({ down: u8, up: u8, vacancy: u8, _zero: zeros(1) });

/** Source: OpenFlow 1.4 `ofp_table_mod_prop_type`. */
export const tableProperties = properties({ eviction: { type: 2, layout: u32 }, vacancy: { type: 3, layout: vacancy } });

/** Source: OpenFlow 1.4 `ofp_table_desc` (u16 length, u8 table, 1 zero, u32 config, properties). */
export const tableDescription = framed(
  'table description',
  { lengthAt: 0, atLeast: 8 },
  record({ _length: zeros(2), table: u8, _zero: zeros(1), config: u32, properties: tableProperties }),
);

/** Source: OpenFlow 1.5.1 `ofp_table_feature_prop_type`. Names with `Miss` refer to the table's miss entry. */
export const tableFeatureTypes = {
  instructions: 0,
  instructionsMiss: 1,
  nextTables: 2,
  nextTablesMiss: 3,
  writeActions: 4,
  writeActionsMiss: 5,
  applyActions: 6,
  applyActionsMiss: 7,
  match: 8,
  wildcards: 10,
  writeSetField: 12,
  writeSetFieldMiss: 13,
  applySetField: 14,
  applySetFieldMiss: 15,
  syncFrom: 16,
  writeCopyField: 18,
  writeCopyFieldMiss: 19,
  applyCopyField: 20,
  applyCopyFieldMiss: 21,
  packetTypes: 22,
  experimenter: 0xfffe,
  experimenterMiss: 0xffff,
} as const;

/** Features of a table, in wire form: lists of type and length, of table numbers, of OXM headers. */
const tableFeature = framed(
  'table feature',
  { lengthAt: 2, atLeast: 4, padded: true },
  record({ type: named(u16, tableFeatureTypes), _length: zeros(2), bytes: rest }),
);

export type TableFeatureName = keyof typeof tableFeatureTypes;

export interface TableFeatures {
  readonly table: number;
  /** OpenFlow 1.5: 0 replace, 1 modify, 2 enable, 3 disable; 1.3: 0. */
  readonly command: number;
  readonly features: number;
  readonly name: string;
  readonly metadataMatch: bigint;
  readonly metadataWrite: bigint;
  readonly capabilities: number;
  readonly maxEntries: number;
  readonly properties: readonly { readonly type: TableFeatureName | number; readonly bytes: Uint8Array }[];
}

const tail = { name: text(32), metadataMatch: u64, metadataWrite: u64, capabilities: u32, maxEntries: u32, properties: list(tableFeature) };

const inThirteen: Layout<TableFeatures> = mapped(
  record({ _length: zeros(2), table: u8, _zero: zeros(5), ...tail }),
  (laid): TableFeatures => ({ command: 0, features: 0, ...laid }),
  (value) => value,
);

const inFifteen: Layout<TableFeatures> = record({ _length: zeros(2), table: u8, command: u8, features: u32, ...tail });

/** Source: OpenFlow 1.5.1 and 1.3.5 `ofp_table_features`. */
export const tableFeatures: Layout<TableFeatures> = framed(
  'table features',
  { lengthAt: 0, atLeast: 64 },
  byVersion(inThirteen, inFifteen),
);
