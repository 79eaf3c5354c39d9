import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ApiError } from '../../policy/errors.ts'
import type { BodyForm } from './body.ts'
import type { BodyJob, BodyReply } from './body-thread.ts'

// TypeScript in tests, JavaScript beside it once compiled.
const extension = extname(import.meta.url)
const program = JSON.stringify(new URL(`./body-thread${extension}`, import.meta.url))
const start =
  extension === '.ts'
    ? `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(tsx => (tsx.register(), import(${program})))`
    : `import(${program})`
const turns = new FairSlots({ atOnce: 2, perSubject: 1 })
/** What a body can take after it was measured, twice: a thread that came to its limit would end the process. */
const memoryMb = 512

/**
 * `parseBody` in a thread of its own, so that a large body holds up no other account: two run concurrently, one of an account, and accounts
 * alternate. The bytes are transferred. Rejects with INVALID_JSON_BODY when its client disconnects while it waits.
 */
export async function parseAside(
  bytes: Uint8Array<ArrayBuffer>,
  form: BodyForm,
  account: string,
  gone: AbortSignal = new AbortController().signal,
): Promise<Record<string, unknown>> {
  const leave = await turns.enterUntil(account, gone).catch(() => {
    throw new ApiError('INVALID_JSON_BODY', 'Its client is gone.')
  })
  try {
    const told = await run({ bytes, form })
    if ('value' in told) return told.value
    throw new ApiError(told.refused.code, told.refused.message)
  } finally {
    leave()
  }
}

function run(job: BodyJob): Promise<BodyReply> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(start, {
      eval: true,
      workerData: job,
      transferList: [job.bytes.buffer as ArrayBuffer],
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      env: {},
    })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', code => reject(new Error(`a body's thread ended with exit code ${code}`)))
  })
}
