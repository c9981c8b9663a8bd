/**
 * SHA-256 of a string's UTF-8, as 64 hexadecimal digits. Implemented here because the plugin's engine has no cryptography; used for file
 * names only. Source: FIPS 180-4, sections 4.1.2, 5 and 6.2.
 */
export function sha256(text: string): string {
  const message = padded(utf8(text));
  const state = initialState.slice();
  for (let at = 0; at < message.length; at += 64) compress(state, message, at);
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function utf8(text: string): number[] {
  const bytes: number[] = [];
  for (const char of text) {
    const point = char.codePointAt(0) ?? 0;
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 0x3f));
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f));
    else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 0x3f), 0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f));
  }
  return bytes;
}

/** Returns a one bit, zeros, and the length in bits as 64-bit big-endian number. */
function padded(bytes: readonly number[]): readonly number[] {
  const bits = bytes.length * 8;
  const out = [...bytes, 0x80];
  while (out.length % 64 !== 56) out.push(0);
  for (let shift = 56; shift >= 0; shift -= 8) out.push(Math.floor(bits / 2 ** shift) & 0xff);
  return out;
}

function compress(state: number[], message: readonly number[], at: number): void {
  const words: number[] = [];
  const word = (index: number) => words[index] ?? 0;
  for (let index = 0; index < 16; index++) {
    const byte = (offset: number) => message[at + 4 * index + offset] ?? 0;
    words.push((byte(0) << 24) | (byte(1) << 16) | (byte(2) << 8) | byte(3));
  }
  for (let index = 16; index < 64; index++) {
    const [w2, w15] = [word(index - 2), word(index - 15)];
    const small0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
    const small1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
    words.push((word(index - 16) + small0 + word(index - 7) + small1) | 0);
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let index = 0; index < 64; index++) {
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const t1 = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + (roundConstants[index] ?? 0) + word(index)) | 0;
    const t2 = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((value, index) => {
    state[index] = ((state[index] ?? 0) + value) | 0;
  });
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

/** First 32 bits of the fractional parts of the square roots of the first 8 primes. */
const initialState: readonly number[] = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/** First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const roundConstants: readonly number[] = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
