import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import test from 'ava'
import { memoryFolder } from '../../../cli/test/test-postgres.ts'

test('memory that a killed test run has left is freed by the next one, and that of a running one is not', t => {
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
