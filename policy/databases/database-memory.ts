import { CodedError } from '../errors.ts'
import { type EngineName, maxMemoryMb } from './engine.ts'
import { engines } from './engines.ts'

/**
 * Memory in MB that was requested for a database (contract 12.4). Throws INSUFFICIENT_MEMORY for anything but a whole number,
 * INVALID_MEMORY for one that no database of this engine may have.
 */
export function requestedMemoryMb(engine: EngineName, value: unknown): number {
  if (!Number.isInteger(value))
    throw new CodedError('INSUFFICIENT_MEMORY', 'The memory of a database must be a whole number of MB.')
  const { minMemoryMb } = engines[engine]
  const memoryMb = value as number
  if (memoryMb < minMemoryMb || memoryMb > maxMemoryMb)
    throw new CodedError('INVALID_MEMORY', `The memory of ${engine} must be ${minMemoryMb} to ${maxMemoryMb} MB.`)
  return memoryMb
}

/** Whether a change of memory checks with the engine, also a stopped one: its data, all in memory, must fit into less. */
export const mustFit = (engine: EngineName, { fromMb, toMb }: { fromMb: number; toMb: number }): boolean =>
  engines[engine].inMemory && toMb < fromMb
