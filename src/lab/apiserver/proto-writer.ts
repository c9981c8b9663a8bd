/** Writes protocol buffer messages (https://protobuf.dev/programming-guides/encoding): length-delimited fields and nothing else is needed here. */
export class ProtoMessage {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  text(field: number, value: string): this {
    return this.#delimited(field, Buffer.from(value, 'utf8'));
  }

  message(field: number, value: ProtoMessage): this {
    return this.#delimited(field, value.bytes());
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  #delimited(field: number, content: Uint8Array): this {
    const lengthDelimited = 2;
    this.#add(varint(field * 8 + lengthDelimited));
    this.#add(varint(content.length));
    this.#add(content);
    return this;
  }

  #add(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.length;
  }
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) + 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return Uint8Array.from([...bytes, rest]);
}
