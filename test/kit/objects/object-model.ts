/** What an account keeps, as little as can be said of it: the measure that real transactions are compared with. */
export interface Model {
  /** By bucket and key. */
  objects: Record<string, ModelObject>
  /** Open uploads, by id. */
  uploads: Record<string, ModelUpload>
}

interface ModelObject {
  segments: string[]
  /** 'new' until it is known what it really is. */
  birth: string
  expired: boolean
  header: string | null
}

interface ModelUpload {
  name: string
  overwrite: boolean
  parts: Record<string, string>
}

/** An act of a client, concurrent with others. */
export type Act =
  | {
      kind: 'put'
      name: string
      overwrite: boolean
      segment: string /** Its body lies beside the row. */
      beside: boolean
    }
  | { kind: 'remove'; names: string[] }
  | { kind: 'move' | 'copy'; from: string; to: string; overwrite: boolean }
  | { kind: 'expire'; name: string }
  | { kind: 'tidy'; names: string[] }
  | { kind: 'header'; name: string; header: string }
  | { kind: 'part'; upload: string; part: number; segment: string }
  | { kind: 'complete' | 'abort' | 'reclaim'; upload: string }
  | { kind: 'sweep' | 'fold' }

/** Performs an act on a model atomically, and returns the client's answer. */
function act(model: Model, done: Act): string {
  const { objects, uploads } = model
  const live = (name: string): ModelObject | undefined => (objects[name]?.expired === false ? objects[name] : undefined)
  const place = (name: string, overwrite: boolean, object: Omit<ModelObject, 'birth'>): string => {
    const old = live(name)
    if (old && !overwrite) return 'OBJECT_ALREADY_EXISTS'
    objects[name] = { ...object, birth: old?.birth ?? 'new' }
    return old ? 'replaced' : 'stored'
  }
  switch (done.kind) {
    case 'put':
      return place(done.name, done.overwrite, { segments: [done.segment], expired: false, header: null })
    case 'remove': {
      const gone = done.names.filter(live)
      for (const name of gone) delete objects[name]
      return `gone ${gone.sort()}`
    }
    case 'tidy': {
      const gone = done.names.filter(name => objects[name]?.expired)
      for (const name of gone) delete objects[name]
      return `gone ${gone.sort()}`
    }
    case 'copy': {
      const source = live(done.from)
      return source ? place(done.to, done.overwrite, { ...source, segments: [...source.segments] }) : 'none'
    }
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
      if (object) object.expired = true
      return object ? 'changed' : 'none'
    }
    case 'header': {
      const object = live(done.name)
      if (object) object.header = done.header
      return object ? 'changed' : 'none'
    }
    case 'part': {
      const upload = uploads[done.upload]
      if (upload) upload.parts[done.part] = done.segment
      return upload ? 'stored' : 'over'
    }
    case 'complete': {
      const upload = uploads[done.upload]
      if (!upload) return 'over'
      const segments = Object.values(upload.parts) // whole numbers as names come in their order
      if (segments.length === 0) return 'NO_CHUNKS_UPLOADED'
      const observed = place(upload.name, upload.overwrite, { segments, expired: false, header: null })
      if (observed !== 'OBJECT_ALREADY_EXISTS') delete uploads[done.upload]
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

/** An act with its answer. */
export interface Observed {
  act: Act
  outcome: string
}

/** What happened concurrently with the acts. */
export interface Beside {
  /** A sweep ran, and removed what was unreferenced at that moment. */
  swept: boolean
  /** Their data does not fit alongside what was stored before. */
  full: boolean
}

/** What may be refused although no order of the acts requires it. Then nothing has happened. */
function mayBeRefused({ act, outcome }: Observed, { swept, full }: Beside): boolean {
  switch (act.kind) {
    case 'put': // a small segment in its row is out of a sweep's reach
      return (outcome === 'UPLOAD_FAILED' && swept && !act.beside) || (outcome === 'STORAGE_QUOTA_EXCEEDED' && full)
    case 'part':
      return (outcome === 'swept' && swept) || (outcome === 'no room' && full)
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
  beside: Beside,
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
    observed.filter(one => !mayBeRefused(one, beside)),
  )
}
