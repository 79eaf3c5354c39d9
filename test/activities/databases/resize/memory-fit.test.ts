import test from 'ava'
import { hasLessMemory, tooLittleMemory } from '../../../../activities/databases/resize/memory-fit.ts'
import type { DatabaseStep } from '../../../../activities/databases/steps.ts'
import { refusal } from '../../../../activities/failures.ts'

/** A step that starts an engine with `ramMb`. */
const stepOf = (ramMbBefore: number | null, ramMb: number) =>
  ({ ramMbBefore, database: () => ({ ramMb }) }) as unknown as DatabaseStep

test('an engine that does not serve with less memory than before is refused that memory', t => {
  t.deepEqual([stepOf(1024, 512), stepOf(512, 512), stepOf(512, 1024), stepOf(null, 512)].map(hasLessMemory), [
    true,
    false,
    false,
    false,
  ])
  const ended = refusal('ACTION_FAILED', 'The engine ended with exit code 1 right after its start.')
  t.like(tooLittleMemory(stepOf(1024, 512), ended), {
    type: 'INVALID_MEMORY',
    nonRetryable: true,
    message: 'It does not serve with 512 MB of memory: The engine ended with exit code 1 right after its start.',
  })
  const full = refusal('CONTAINER_INSUFFICIENT_DISK_SPACE', 'The disk is full.')
  t.is(tooLittleMemory(stepOf(1024, 512), full), full)
  const unknown = new Error('Connection refused')
  t.is(tooLittleMemory(stepOf(1024, 512), unknown), unknown)
})
