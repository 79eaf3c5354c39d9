import { etagOf } from './object-bytes.ts'

/** What an account keeps, as little as can be said of it: the measure that real transactions are compared with. */
export interface Model {
  /** By bucket and key. */
  objects: Record<string, ModelObject>
  /** Open uploads, by id. */
  uploads: Record<string, ModelUpload>
  /** Completed uploads of S3 that may be completed again, by id. */
  results: Record<string, { name: string; etag: string }>
}

interface ModelObject {
  segments: string[]
  /** 'new' until it is known what it really is. */
  birth: string
  expired: boolean
  header: string | null
  etag: string
  tag: string | null
}

interface ModelUpload {
  name: string
  wire: 'blob' | 's3'
  overwrite: boolean
  parts: Record<string, string>
}

/** What a write demands of the name: that it is new, or that its object has this ETag; `*` is any. */
export interface Condition {
  overwrite: boolean
  match?: string
}

/** An act of a client, concurrent with others. */
export type Act =
  | (Condition & {
      kind: 'put'
      wire: 'blob' | 's3'
      name: string
      segment: string /** Whether its body lies in the row. */
      inline: boolean
    })
  | { kind: 'remove'; names: string[] }
  | { kind: 'move' | 'copy'; from: string; to: string; overwrite: boolean }
  | { kind: 'expire'; name: string }
  | { kind: 'tidy'; names: string[] }
  | { kind: 'header'; name: string; header: string }
  /** A header or a tag replaces the one of the source. */
  | (Condition & { kind: 's3copy'; from: string; to: string; header: string | null; tag: string | null })
  | { kind: 's3delete'; name: string; match?: string }
  | { kind: 'tag'; name: string; tag: string | null }
  | { kind: 'part'; upload: string; part: number; segment: string }
  /** A part that is the first segment of an object. */
  | { kind: 'share'; upload: string; part: number; from: string }
  | (Condition & { kind: 's3complete'; upload: string; name: string; listed: { part: number; segment: string }[] })
  | { kind: 'complete' | 'abort' | 'reclaim'; upload: string }
  | { kind: 'sweep' | 'fold' }

/** Performs an act on a model atomically, and returns the client's answer. */
function act(model: Model, done: Act): string {
  const { objects, uploads, results } = model
  const live = (name: string): ModelObject | undefined => (objects[name]?.expired === false ? objects[name] : undefined)
  const differs = (name: string, match?: string): boolean =>
    match !== undefined && match !== '*' && match !== live(name)?.etag
  const place = (name: string, { overwrite, match }: Condition, object: Omit<ModelObject, 'birth'>): string => {
    const old = live(name)
    if (old && !overwrite) return 'OBJECT_ALREADY_EXISTS'
    if (!old && match !== undefined) return 'NoSuchKey'
    if (differs(name, match)) return 'PreconditionFailed'
    objects[name] = { ...object, birth: old?.birth ?? 'new' }
    return old ? 'replaced' : 'stored'
  }
  const plain = { expired: false, header: null, tag: null }
  switch (done.kind) {
    case 'put':
      return place(done.name, done, { segments: [done.segment], etag: done.segment, ...plain })
    case 'remove': {
      const removed = done.names.filter(live)
      for (const name of removed) delete objects[name]
      return `removed ${removed.sort()}`
    }
    case 'tidy': {
      const removed = done.names.filter(name => objects[name]?.expired)
      for (const name of removed) delete objects[name]
      return `removed ${removed.sort()}`
    }
    case 'copy': {
      const source = live(done.from)
      return source ? place(done.to, done, { ...source, segments: [...source.segments] }) : 'none'
    }
    case 's3copy': {
      const source = live(done.from)
      if (!source) return 'NoSuchKey'
      const { header, tag } = { header: done.header ?? source.header, tag: done.tag ?? source.tag }
      const observed = place(done.to, done, { ...source, segments: [...source.segments], header, tag })
      return isDone(observed) ? 'copied' : observed
    }
    case 's3delete':
      if (live(done.name) && differs(done.name, done.match)) return 'PreconditionFailed'
      if (live(done.name)) delete objects[done.name]
      return 'done'
    case 'move': {
      const source = live(done.from)
      if (!source) return 'none'
      const old = live(done.to)
      if (old && !done.overwrite) return 'OBJECT_ALREADY_EXISTS'
      delete objects[done.from]
      objects[done.to] = { ...source, birth: 'new' }
      return old ? 'replaced' : 'stored'
    }
    case 'expire': {
      const object = live(done.name)
      if (object) Object.assign(object, { expired: true, birth: 'new' })
      return object ? 'changed' : 'none'
    }
    case 'header': {
      const object = live(done.name)
      if (object) object.header = done.header
      return object ? 'changed' : 'none'
    }
    case 'tag': {
      const object = live(done.name)
      if (object) object.tag = done.tag
      return object ? 'changed' : 'NoSuchKey'
    }
    case 'part': {
      const upload = uploads[done.upload]
      if (upload) upload.parts[done.part] = done.segment
      return upload ? 'stored' : 'over'
    }
    case 'share': {
      const [source, upload] = [live(done.from), uploads[done.upload]]
      if (!source) return 'none'
      if (upload) upload.parts[done.part] = source.segments[0]!
      return upload ? 'stored' : 'over'
    }
    case 's3complete': {
      const upload = uploads[done.upload]
      const result = results[done.upload]
      if (!upload) return result ? `completed ${result.etag}` : 'NoSuchUpload'
      if (done.listed.some(({ part, segment }) => upload.parts[part] !== segment)) return 'InvalidPart'
      const segments = done.listed.map(({ segment }) => segment)
      const etag = etagOf(segments)
      const observed = place(upload.name, done, { segments, etag, ...plain })
      if (!isDone(observed)) return observed
      delete uploads[done.upload]
      results[done.upload] = { name: upload.name, etag }
      return `completed ${etag}`
    }
    case 'complete': {
      const upload = uploads[done.upload]
      if (!upload) return 'over'
      const segments = Object.values(upload.parts) // whole numbers as names come in their order
      if (segments.length === 0) return 'NO_CHUNKS_UPLOADED'
      const observed = place(upload.name, upload, { segments, etag: etagOf(segments), ...plain })
      if (isDone(observed)) delete uploads[done.upload]
      return observed
    }
    case 'abort': // repeating it changes and reports nothing
      delete uploads[done.upload]
      return 'done'
    case 'reclaim': {
      const isOpen = done.upload in uploads
      delete uploads[done.upload]
      return isOpen ? 'ended' : 'over'
    }
    case 'sweep':
    case 'fold':
      return 'done'
  }
}

const isDone = (observed: string): boolean => observed === 'stored' || observed === 'replaced'

/** An act with its answer. */
export interface Observed {
  act: Act
  outcome: string
}

/** What happened concurrently with the acts. */
export interface Meanwhile {
  /** A sweep ran, and removed what was unreferenced at that moment. */
  swept: boolean
  /** Their data does not fit alongside what was stored before. */
  full: boolean
}

/** Whether an act can have changed what a name has. */
function touches({ act }: Observed, name: string, { uploads }: Model): boolean {
  if ('names' in act) return act.names.includes(name)
  if ('to' in act) return act.to === name || (act.kind === 'move' && act.from === name)
  return 'name' in act ? act.name === name : 'upload' in act && uploads[act.upload]?.name === name
}

/** What may be refused although no order of the acts requires it. Then nothing has happened. */
function mayBeRefused(
  { act, outcome }: Observed,
  { swept, full }: Meanwhile,
  isTouched: (name: string) => boolean,
): boolean {
  switch (act.kind) {
    case 'put': // a small segment in its row is out of a sweep's reach
      return (outcome === 'UPLOAD_FAILED' && swept && !act.inline) || (outcome === 'STORAGE_QUOTA_EXCEEDED' && full)
    case 'part':
      return (outcome === 'swept' && swept) || (outcome === 'no room' && full)
    case 'share': // its source can have been removed since it was looked up
      return (outcome === 'swept' && isTouched(act.from)) || (outcome === 'no room' && full)
    case 's3copy':
      return outcome === 'STORAGE_QUOTA_EXCEEDED' || (outcome === 'OperationAborted' && isTouched(act.from))
    case 's3complete':
    case 'copy': // what it brings can have grown after its room was reserved
    case 'complete':
      return outcome === 'STORAGE_QUOTA_EXCEEDED'
    default:
      return false
  }
}

/** The model after concurrent acts: some order of them must give their answers and leave what is stored; undefined if none does. */
export function explain(
  before: Model,
  observed: readonly Observed[],
  meanwhile: Meanwhile,
  fits: (after: Model) => boolean,
): Model | undefined {
  const inOrder = (model: Model, left: readonly Observed[]): Model | undefined => {
    if (left.length === 0) return fits(model) ? model : undefined
    for (const next of left) {
      const after = structuredClone(model)
      if (act(after, next.act) !== next.outcome) continue
      const found = inOrder(
        after,
        left.filter(other => other !== next),
      )
      if (found) return found
    }
    return undefined
  }
  return inOrder(
    before,
    observed.filter(one => {
      const isTouched = (name: string) => observed.some(other => other !== one && touches(other, name, before))
      return !mayBeRefused(one, meanwhile, isTouched)
    }),
  )
}
