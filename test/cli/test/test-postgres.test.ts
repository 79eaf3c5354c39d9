import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import test from 'ava'
import { memoryFolder } from '../../../cli/test/test-postgres.ts'

test('what a killed test run has left in memory is removed by the next one, and nothing of one that runs', t => {
  const { pid } = spawnSync('true')
  const left = `/dev/shm/berth-test-${pid}-left`
  mkdirSync(left)
  const [one, other] = [memoryFolder(), memoryFolder()]
  t.teardown(() => {
    for (const folder of [left, one, other]) rmSync(folder, { recursive: true, force: true })
  })
  t.true(existsSync(one))
  t.false(existsSync(left))
})
