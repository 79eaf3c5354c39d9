import { readFileSync } from 'node:fs'
import test from 'ava'
import { needsOpenAiClient } from '../../../../cli/test/clients/openai.ts'

test("OpenAI's client for Python is installed for runs that use it", t => {
  for (const files of [[], ['test/ai-clients/python.test.ts'], ['test/lib/bytes.test.ts', 'test/**']])
    t.true(needsOpenAiClient(files), files.join())
  for (const files of [['test/api/v2/ai/chat.test.ts'], ['test/lib/**']])
    t.false(needsOpenAiClient(files), files.join())
})

test('every package of the client has one version and a digest of each wheel', t => {
  const list = readFileSync('cli/test/clients/openai/requirements.txt', 'utf8')
  for (const entry of list.trim().split(/(?<!\\)\n/))
    t.regex(entry, /^[\w-]+==[\d.]+( \\\n {4}--hash=sha256:[0-9a-f]{64})+$/)
  t.regex(list, /^openai==/m)
})
