import { newId } from '../../../policy/ids.ts'
import type { Act, Condition, Model } from './object-model.ts'

/** Few names, so that everything meets. */
export const names = ['public a', 'public b', 'private a', 'private b', 'legacy a']
/** By S3. */
export const writable = names.filter(name => !name.startsWith('legacy'))

/** Repeats itself from its seed: numbers from 0 up to, not with, a bound. */
function dice(seed: number): (below: number) => number {
  let state = seed >>> 0
  return below => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** Draws acts on what an account keeps; the same ones from the same seed. */
export class Draws {
  /** A number from 0 up to, not with, a bound. */
  readonly roll: (below: number) => number
  #model: Model = { objects: {}, uploads: {}, results: {} }
  #n = 0

  constructor(seed: number) {
    this.roll = dice(seed)
  }

  /** Two to four acts on what is there. */
  acts(model: Model): Act[] {
    this.#model = model
    return Array.from({ length: 2 + this.roll(3) }, () => this.#act(this.pick(table)))
  }

  #act(kind: Act['kind']): Act {
    const name = this.pick(names)
    const overwrite = this.roll(2) === 0
    const upload = this.pick(Object.keys(this.#model.uploads))
    switch (kind) {
      case 'put':
        return { kind, ...this.#write(name), segment: newId(), inline: this.roll(2) === 0 }
      case 'remove':
      case 'tidy':
        return { kind, names: this.roll(2) === 0 ? [name] : names.filter(() => this.roll(2) === 0) }
      case 'move':
      case 'copy':
        return { kind, from: name, to: this.pick(names.filter(other => other !== name)), overwrite }
      case 's3copy':
        return this.#copyByS3(name)
      case 's3delete':
        return { kind, name, match: this.#condition(name).match }
      case 'expire':
        return { kind, name }
      case 'header':
        return { kind, name, header: `${this.#n++}` }
      case 'tag':
        return { kind, name: this.pick(writable), tag: this.roll(4) === 0 ? null : `${this.#n++}` }
      case 'part':
        return { kind, upload, part: 1 + this.roll(3), segment: newId() }
      case 'share':
        return { kind, upload, part: 1 + this.roll(3), from: name }
      case 'complete':
      case 's3complete':
        return this.#complete()
      case 'abort':
      case 'reclaim':
        return { kind, upload }
      default:
        return { kind }
    }
  }

  #write(name: string): Condition & { wire: 'blob' | 's3'; name: string } {
    if (this.roll(2) === 0) return { wire: 'blob', name, overwrite: this.roll(2) === 0 }
    const named = this.pick(writable)
    return { wire: 's3', name: named, ...this.#condition(named) }
  }

  #copyByS3(from: string): Act {
    const to = this.pick(writable)
    const replaced = () => (this.roll(2) === 0 ? `${this.#n++}` : null)
    const [header, tag] = [replaced(), replaced()]
    // Onto itself an object can be copied only with a change.
    return {
      kind: 's3copy',
      from,
      to,
      header: header ?? (from === to && tag === null ? '0' : null),
      tag,
      ...this.#condition(to),
    }
  }

  /** Of S3: none, that the name is new, that it has any object, its present one, or another. */
  #condition(name: string): Condition {
    const etag = this.#model.objects[name]?.etag ?? 'none'
    const match = this.pick([undefined, undefined, undefined, '*', etag, 'other'])
    return match === undefined ? { overwrite: this.roll(3) > 0 } : { overwrite: true, match }
  }

  /** Some parts of an upload, as they are or as they are becoming; or the same again of one that is complete. */
  #complete(): Act {
    const { uploads, results } = this.#model
    const id = this.pick([...Object.keys(uploads), ...Object.keys(uploads), ...Object.keys(results)])
    const upload = uploads[id]
    if (upload?.wire === 'blob') return { kind: 'complete', upload: id }
    const { name } = upload ?? results[id]!
    const parts = Object.entries(upload?.parts ?? {}).map(([part, segment]) => ({ part: Number(part), segment }))
    const chosen = parts.filter(() => this.roll(4) > 0)
    // There is no completion of nothing: one of a part that nobody has sent.
    const listed = chosen.length > 0 ? chosen : [{ part: 1, segment: newId() }]
    return { kind: 's3complete', upload: id, name, listed, ...this.#condition(name) }
  }

  pick<T>(list: readonly T[]): T {
    return list[this.roll(list.length)]!
  }
}

/** How often each act is drawn. */
const table: Act['kind'][] = (
  'put put put put put remove remove move move move copy copy s3copy s3copy s3copy s3delete expire tidy header tag tag ' +
  'part part part part share share complete complete complete complete abort reclaim sweep fold'
).split(' ') as Act['kind'][]
