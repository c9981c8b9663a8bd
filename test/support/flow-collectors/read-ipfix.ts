/** Field of a template as it was received. */
interface ReadField {
  readonly id: number;
  readonly enterprise: number;
  readonly length: number;
}

/** Record with its values as bytes, by `enterprise/element`. */
interface ReadRecord {
  readonly template: number;
  readonly values: ReadonlyMap<string, Buffer>;
}

/**
 * Reader of IPFIX for tests, written from RFC 7011 alone: it shares no code and no table with the exporter. One reader is one session: it
 * remembers templates, and checks sequence numbers.
 */
export class IpfixReader {
  readonly #templates = new Map<number, readonly ReadField[]>();
  readonly records: ReadRecord[] = [];
  readonly domains = new Set<number>();
  /** Number of messages whose sequence number is not the number of records before. */
  gaps = 0;
  messages = 0;
  #rest = Buffer.alloc(0);

  /** Reads messages from a stream of bytes. */
  stream(chunk: Uint8Array): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 4 && this.#rest.length >= this.#rest.readUInt16BE(2)) {
      const length = this.#rest.readUInt16BE(2);
      this.message(this.#rest.subarray(0, length));
      this.#rest = this.#rest.subarray(length);
    }
  }

  /** Reads one message. */
  message(bytes: Buffer): void {
    if (bytes.readUInt16BE(0) !== 10 || bytes.readUInt16BE(2) !== bytes.length) throw new Error('not an IPFIX message');
    this.messages++;
    this.domains.add(bytes.readUInt32BE(12));
    if (bytes.readUInt32BE(8) !== this.records.length) this.gaps++;
    for (let at = 16; at < bytes.length; ) {
      const [id, length] = [bytes.readUInt16BE(at), bytes.readUInt16BE(at + 2)];
      if (length < 4) throw new Error('a set without its header');
      this.#set(id, bytes.subarray(at + 4, at + length));
      at += length;
    }
  }

  #set(id: number, body: Buffer): void {
    if (id === 2 || id === 3) this.#readTemplate(body, id === 3);
    else {
      const fields = this.#templates.get(id);
      if (!fields) throw new Error(`no template ${id}`);
      for (let at = 0; at < body.length; ) at = this.#readRecord(id, fields, body, at);
    }
  }

  #readTemplate(body: Buffer, isOptions: boolean): void {
    const fields: ReadField[] = [];
    let at = isOptions ? 6 : 4;
    for (let left = body.readUInt16BE(2); left > 0; left--) {
      const [element, length] = [body.readUInt16BE(at), body.readUInt16BE(at + 2)];
      at += 4;
      const isPrivate = (element & 0x8000) !== 0;
      fields.push({ id: element & 0x7fff, length, enterprise: isPrivate ? body.readUInt32BE(at) : 0 });
      if (isPrivate) at += 4;
    }
    if (at !== body.length) throw new Error('a template set with more than its template');
    this.#templates.set(body.readUInt16BE(0), fields);
  }

  #readRecord(template: number, fields: readonly ReadField[], body: Buffer, start: number): number {
    const values = new Map<string, Buffer>();
    let at = start;
    for (const { id, enterprise, length: fixed } of fields) {
      const length = fixed === 65_535 ? body.readUInt8(at++) : fixed;
      if (at + length > body.length) throw new Error('a record longer than its set');
      values.set(`${enterprise}/${id}`, body.subarray(at, at + length));
      at += length;
    }
    this.records.push({ template, values });
    return at;
  }
}
