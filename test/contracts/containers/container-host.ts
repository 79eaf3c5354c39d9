import type { SerialFn } from 'ava'
import type { HostUnderTest } from './host-under-test.ts'
import { outputContract } from './output.ts'
import { reportsContract } from './reports.ts'
import { resourcesContract } from './resources.ts'
import { runsContract } from './runs.ts'

/** The contract of every container host. */
export function containerHostContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  for (const part of [runsContract, outputContract, reportsContract, resourcesContract]) part(test, name, subject)
}
