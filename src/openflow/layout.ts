import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { textOf } from './properties.ts';
import { OPENFLOW_13, type Version } from './protocol.ts';

/** Layout of a value in a message: read and written from one description, so that the two cannot disagree. */
export interface Layout<T> {
  /** @throws SeineError `PROTOCOL` if it is malformed */
  read(r: ByteReader, version: Version): T;
  /** @throws SeineError `INVARIANT` if a number does not fit */
  write(w: ByteWriter, value: T, version: Version): void;
}

/** Type of the value that a layout describes. */
export type Laid<L> = L extends Layout<infer T> ? T : never;

interface AnyLayout {
  read(r: ByteReader, version: Version): unknown;
  write(w: ByteWriter, value: never, version: Version): void;
}

export const u8: Layout<number> = { read: (r) => r.u8(), write: (w, value) => w.u8(value) };
export const u16: Layout<number> = { read: (r) => r.u16(), write: (w, value) => w.u16(value) };
export const u32: Layout<number> = { read: (r) => r.u32(), write: (w, value) => w.u32(value) };
/** An Ethernet address as a 48-bit number. */
export const u48: Layout<number> = { read: (r) => r.u48(), write: (w, value) => w.u48(value) };
export const u64: Layout<bigint> = { read: (r) => r.u64(), write: (w, value) => w.u64(value) };

/** All bytes to the end, as a view. */
export const rest: Layout<Uint8Array> = { read: (r) => r.raw(r.remaining), write: (w, value) => w.raw(value) };

/** Padding: members of a `record` whose names begin with `_`. */
export function zeros(count: number): Layout<undefined> {
  return { read: (r) => void r.skip(count), write: (w) => w.zeros(count) };
}

/** Text in a field of fixed size. @throws SeineError `INVARIANT` if it does not fit with a terminating zero */
export function text(bytes: number): Layout<string> {
  return {
    read: (r) => textOf(r.raw(bytes)),
    write: (w, value) => {
      const encoded = new TextEncoder().encode(value);
      if (encoded.length >= bytes) throw new SeineError('INVARIANT', `text of ${encoded.length} bytes in a field of ${bytes}`);
      w.raw(encoded).zeros(bytes - encoded.length);
    },
  };
}

/** Name for a number; a number without a name stays a number. */
export function named<N extends string>(base: Layout<number>, names: Readonly<Record<N, number>>): Layout<N | number> {
  const byNumber = new Map((Object.entries(names) as [N, number][]).map(([name, number]) => [number, name]));
  return {
    read: (r, version) => {
      const number = base.read(r, version);
      return byNumber.get(number) ?? number;
    },
    write: (w, value, version) => base.write(w, typeof value === 'number' ? value : names[value], version),
  };
}

/** Like {@link named}, for names that count from 0. */
export function oneOf<N extends string>(base: Layout<number>, names: readonly N[]): Layout<N | number> {
  return named(base, Object.fromEntries(names.map((name, number) => [name, number])) as Record<N, number>); // `fromEntries` loses the names
}

type Members = Readonly<Record<string, AnyLayout>>;

type RecordOf<M extends Members> = {
  readonly [K in keyof M as K extends `_${string}` ? never : K]: ReturnType<M[K]['read']>;
};

/** Members in the order in which they are listed here. */
export function record<M extends Members>(members: M): Layout<RecordOf<M>> {
  const list = Object.entries(members) as [string, Layout<unknown>][]; // the members of a value have the types of their layouts
  return {
    read: (r, version) => {
      const found: Record<string, unknown> = {};
      for (const [name, layout] of list) {
        const value = layout.read(r, version);
        if (!name.startsWith('_')) found[name] = value;
      }
      return found as RecordOf<M>; // each member was read with its own layout
    },
    write: (w, value, version) => {
      const given = value as Readonly<Record<string, unknown>>;
      for (const [name, layout] of list) layout.write(w, given[name], version);
    },
  };
}

/** Concatenates the members of two records. */
export function joined<A extends object, B extends object>(first: Layout<A>, second: Layout<B>): Layout<A & B> {
  return {
    read: (r, version) => {
      const before = first.read(r, version);
      return { ...before, ...second.read(r, version) };
    },
    write: (w, value, version) => {
      first.write(w, value, version);
      second.write(w, value, version);
    },
  };
}

/** Items to the end. */
export function list<T>(item: Layout<T>): Layout<readonly T[]> {
  return {
    read: (r, version) => {
      const items: T[] = [];
      while (r.remaining > 0) {
        const before = r.offset;
        items.push(item.read(r, version));
        if (r.offset === before) throw new SeineError('PROTOCOL', 'item of no bytes');
      }
      return items;
    },
    write: (w, items, version) => {
      for (const item_ of items) item.write(w, item_, version);
    },
  };
}

export interface Framing {
  /** Offset of the 16-bit length from the start of the item; the item's layout has zeros there. */
  readonly lengthAt: number;
  /** Bytes before those that the length counts. */
  readonly uncounted?: number;
  /** Minimum length of an item. */
  readonly atLeast: number;
  /** Set if the end is padded to a multiple of 8, which the length does not count. */
  readonly padded?: true;
}

/** Item with a length field. */
export function framed<T>(what: string, { lengthAt, uncounted = 0, atLeast, padded }: Framing, inside: Layout<T>): Layout<T> {
  return {
    read: (r, version) => {
      const length = r.peekU16(lengthAt) + uncounted;
      if (length < atLeast) throw new SeineError('PROTOCOL', `${what} of ${length} bytes`);
      const value = inside.read(new ByteReader(r.raw(length), what), version);
      if (padded) r.skip(Math.min((8 - (length % 8)) % 8, r.remaining));
      return value;
    },
    write: (w, value, version) => {
      const start = w.length;
      inside.write(w, value, version);
      w.patchU16(start + lengthAt, w.length - start - uncounted);
      if (padded) w.alignTo(8, start);
    },
  };
}

/** The same value, with a layout per version. */
export function byVersion<T>(in13: Layout<T>, in15: Layout<T>): Layout<T> {
  const of = (version: Version) => (version === OPENFLOW_13 ? in13 : in15);
  return {
    read: (r, version) => of(version).read(r, version),
    write: (w, value, version) => of(version).write(w, value, version),
  };
}

/** Value with another type than its layout has. */
export function mapped<A, B>(layout: Layout<A>, toValue: (laid: A) => B, toLaid: (value: B) => A): Layout<B> {
  return {
    read: (r, version) => toValue(layout.read(r, version)),
    write: (w, value, version) => layout.write(w, toLaid(value), version),
  };
}

/** Body of an empty message. */
export const nothing: Layout<Readonly<Record<never, never>>> = { read: () => ({}), write: () => undefined };

type PropertyRows = Readonly<Record<string, { readonly type: number; readonly layout: AnyLayout }>>;

export type PropertiesOf<P extends PropertyRows> = { readonly [K in keyof P]?: ReturnType<P[K]['layout']['read']> } & {
  /** Properties without a row, whole and in wire form; written last. */
  readonly unknownProperties?: Uint8Array;
};

/**
 * Properties to the end: u16 type, u16 length without padding, value, zeros to a multiple of 8. A property whose row does not use all of
 * its bytes is kept as unknown.
 */
export function properties<P extends PropertyRows>(rows: P): Layout<PropertiesOf<P>> {
  const list_ = Object.entries(rows) as [string, { type: number; layout: Layout<unknown> }][]; // like in `record`
  return {
    read: (r, version) => {
      const found: Record<string, unknown> = {};
      const unknown: number[] = [];
      while (r.remaining > 0) {
        const [type, length] = [r.peekU16(0), r.peekU16(2)];
        if (length < 4) throw new SeineError('PROTOCOL', `property of ${length} bytes`);
        const whole = r.raw(Math.min(length + ((8 - (length % 8)) % 8), Math.max(length, r.remaining)));
        const row = list_.find(([name, each]) => each.type === type && found[name] === undefined);
        const body = new ByteReader(whole.subarray(0, length), 'property').skip(4);
        const value = row?.[1].layout.read(body, version);
        if (row !== undefined && body.remaining === 0) found[row[0]] = value;
        else unknown.push(...whole);
      }
      if (unknown.length > 0) found['unknownProperties'] = Uint8Array.from(unknown);
      return found as PropertiesOf<P>; // each was read with its own layout
    },
    write: (w, value, version) => {
      const given = value as Readonly<Record<string, unknown>>;
      for (const [name, { type, layout }] of list_) if (given[name] !== undefined) writeOne(w, type, layout, given[name], version);
      if (value.unknownProperties !== undefined) w.raw(value.unknownProperties);
    },
  };
}

function writeOne(w: ByteWriter, type: number, layout: Layout<unknown>, value: unknown, version: Version): void {
  const start = w.length;
  w.u16(type).u16(0);
  layout.write(w, value, version);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}
