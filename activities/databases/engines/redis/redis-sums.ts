import { createHash, type Hash } from 'node:crypto'

const modulus = 1n << 256n

export interface DigestLimits {
  /** Elements held in memory to count each once, some 100 bytes for each; more are read in several passes. */
  maxElements: number
  /** Of one read of one key, if its elements are alike. */
  pageBytes: number
  /** Max functions, groups of a stream, and consumers of a group: each list is one reply. */
  names: number
  /** Of one reply. */
  replyBytes: number
}

export type Part = string | Buffer

/** With its length before each part, so that no other parts have the same bytes. */
export function add(digest: Hash, ...parts: Part[]): void {
  for (const part of parts) digest.update(`${Buffer.byteLength(part)} `).update(part)
}

/** SHA-256 of parts that belong together. */
export function digestOfParts(parts: Part[]): Buffer {
  const digest = createHash('sha256')
  add(digest, ...parts)
  return digest.digest()
}

/** Sums up what `read` offers, with each element counted once: in as many passes as it takes to remember those of each. */
export async function inPasses(
  elements: number,
  { maxElements }: DigestLimits,
  read: (sum: UniqueSum) => Promise<void>,
): Promise<UniqueSum> {
  const passes = Math.max(1, Math.ceil(elements / maxElements))
  const sum = new UniqueSum(passes)
  for (let pass = 0; pass < passes; pass++) {
    sum.begin(pass)
    await read(sum)
  }
  return sum
}

/** Adds digests whose order means nothing; a repeated one counts once. */
export class UniqueSum {
  readonly #passes: number
  readonly #seen = new Set<string>()
  #pass = 0
  #sum = 0n
  count = 0

  constructor(passes: number) {
    this.#passes = passes
  }

  begin(pass: number): void {
    this.#pass = pass
    this.#seen.clear()
  }

  /** Whether this pass is that of an element, by a digest of it. */
  takes(digest: Buffer): boolean {
    return digest.readUInt32BE(28) % this.#passes === this.#pass
  }

  /** As `add`, if the element is one of this pass. */
  offer(digest: Buffer): void {
    if (this.takes(digest)) this.add(digest)
  }

  add(digest: Buffer): void {
    const name = digest.toString('latin1', 0, 16)
    if (this.#seen.has(name)) return
    this.#seen.add(name)
    this.count++
    this.#sum = (this.#sum + BigInt(`0x${digest.toString('hex')}`)) % modulus
  }

  text(): string {
    return `${this.count} ${this.#sum.toString(16)}`
  }
}
