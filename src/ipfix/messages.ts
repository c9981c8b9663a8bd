import { type ByteWriter, bytesOf } from '../base/bytes/bytes.ts';
import { type ElementName, type ElementType, type ElementValue, elements, type InformationElement } from './elements.ts';

const VERSION = 10;
const MESSAGE_HEADER_BYTES = 16;
const SET_HEADER_BYTES = 4;
const TEMPLATE_SET = 2;
const OPTIONS_TEMPLATE_SET = 3;
/** Length in a template of an element whose records have a length each. Source: RFC 7011 section 7. */
const VARIABLE = 65_535;
/** Maximum length of a text (bytes), which is the longest whose length has one byte: a longer text is cut, so that a record fits a message. */
const TEXT_MAX = 254;

/** Layout of records. Numbers of templates begin with 256. */
export interface Template {
  readonly id: number;
  readonly fields: readonly ElementName[];
  /** Number of first fields that are the scope: the template is one of options. */
  readonly scope?: number;
}

/** Record: values by name, one for each field of its template. */
export interface DataRecord {
  readonly template: Template;
  readonly values: Readonly<Partial<Record<ElementName, ElementValue>>>;
}

const lengths: Readonly<Record<ElementType, number>> = {
  unsigned8: 1,
  unsigned16: 2,
  unsigned32: 4,
  unsigned64: 8,
  ipv4Address: 4,
  ipv6Address: 16,
  dateTimeMilliseconds: 8,
  string: VARIABLE,
};

interface MessageOptions {
  /** Unix time (ms). */
  readonly exportMs: number;
  /** Number of data records of this session before the first message, modulo 2^32. */
  readonly sequence: number;
  readonly domain: number;
  /** Maximum length of a message (bytes). A record has to fit in a message of its own. */
  readonly bytesMax: number;
}

/** Message, and the number of its data records. */
interface IpfixMessage {
  readonly bytes: Uint8Array;
  readonly records: number;
}

/** Returns a message with templates, each in its set. Pure. Source: RFC 7011 sections 3.4.1, 3.4.2. */
export function templateMessage(templates: readonly Template[], options: MessageOptions): Uint8Array {
  return message(
    bytesOf((w) => {
      for (const template of templates)
        writeSet(
          w,
          template.scope === undefined ? TEMPLATE_SET : OPTIONS_TEMPLATE_SET,
          bytesOf((body) => writeTemplate(body, template)),
        );
    }),
    options,
  );
}

/** Returns messages with records in the given order; adjacent records with one template share a set. Pure. */
export function dataMessages(records: readonly DataRecord[], options: MessageOptions): readonly IpfixMessage[] {
  const messages: IpfixMessage[] = [];
  let sets: { readonly id: number; readonly parts: Uint8Array[] }[] = [];
  let [length, count, sequence] = [MESSAGE_HEADER_BYTES, 0, options.sequence];
  const finish = (): void => {
    if (count === 0) return;
    const body = bytesOf((w) => {
      for (const { id, parts } of sets) writeSet(w, id, Buffer.concat(parts));
    });
    messages.push({ bytes: message(body, { ...options, sequence }), records: count });
    sequence = (sequence + count) % 2 ** 32;
    [sets, length, count] = [[], MESSAGE_HEADER_BYTES, 0];
  };
  for (const record of records) {
    const part = bytesOf((w) => writeRecord(w, record));
    if (length + SET_HEADER_BYTES + part.length > options.bytesMax) finish();
    const last = sets.at(-1);
    if (last?.id === record.template.id) last.parts.push(part);
    else {
      sets.push({ id: record.template.id, parts: [part] });
      length += SET_HEADER_BYTES;
    }
    length += part.length;
    count++;
  }
  finish();
  return messages;
}

function message(body: Uint8Array, { exportMs, sequence, domain }: MessageOptions): Uint8Array {
  return bytesOf((w) =>
    w
      .u16(VERSION)
      .u16(MESSAGE_HEADER_BYTES + body.length)
      .u32(Math.floor(exportMs / 1_000))
      .u32(sequence)
      .u32(domain)
      .raw(body),
  );
}

function writeSet(w: ByteWriter, id: number, body: Uint8Array): void {
  w.u16(id)
    .u16(SET_HEADER_BYTES + body.length)
    .raw(body);
}

function writeTemplate(w: ByteWriter, { id, fields, scope }: Template): void {
  w.u16(id).u16(fields.length);
  if (scope !== undefined) w.u16(scope);
  for (const name of fields) {
    const { id: element, type, enterprise }: InformationElement = elements[name];
    w.u16(enterprise === undefined ? element : element | 0x8000).u16(lengths[type]);
    if (enterprise !== undefined) w.u32(enterprise);
  }
}

function writeRecord(w: ByteWriter, { template, values }: DataRecord): void {
  for (const name of template.fields) writeValue(w, elements[name].type, values[name]);
}

/** Writes a value; an absent one as zero or an empty text. */
function writeValue(w: ByteWriter, type: ElementType, value: ElementValue = type === 'string' ? '' : 0): void {
  switch (type) {
    case 'unsigned8':
      return void w.u8(Number(value));
    case 'unsigned16':
      return void w.u16(Number(value));
    case 'unsigned32':
      return void w.u32(Number(value));
    case 'unsigned64':
      return void w.u64(BigInt(value));
    case 'dateTimeMilliseconds':
      return void w.u64(BigInt(Math.floor(Number(value))));
    case 'ipv4Address':
      return void w.u32(Number(value));
    case 'ipv6Address': {
      const address = BigInt(value);
      return void w.u64(address >> 64n).u64(address & 0xffff_ffff_ffff_ffffn);
    }
    case 'string':
      writeText(w, String(value));
  }
}

/** Source: RFC 7011 section 7, figure R. */
function writeText(w: ByteWriter, text: string): void {
  const room = new Uint8Array(TEXT_MAX);
  const { written } = new TextEncoder().encodeInto(text, room); // never a part of a character
  w.u8(written).raw(room.subarray(0, written));
}
