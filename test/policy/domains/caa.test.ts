import test from 'ava'
import { caaNames, caaRefusal } from '../../../policy/domains/caa.ts'

const authority = ['ca.example', 'old-ca.example']
const refusal = (records: string[], isWildcard = false) =>
  caaRefusal({ foundAt: 'example.com', records }, authority, isWildcard)

test('records of the name count, and else those of the nearest parent', t => {
  t.deepEqual(caaNames('a.b.example.com'), ['a.b.example.com', 'b.example.com', 'example.com', 'com'])
})

test('an authority may issue unless all issuers are others', t => {
  const permitting = [
    [],
    ['0 iodef mailto:a@b.c'],
    ['0 issue ca.example'],
    ['0 issue CA.Example'],
    ['0 ISSUE ca.example'],
    ['0 issue old-ca.example'],
    ['0 issue other.example', '0 issue ca.example; validationmethods=dns-01'],
    ['0 issue  ca.example ;x=1'],
    ['0 unknown x', '0 issue ca.example'],
    ['128 issue ca.example'],
    ['0 issuewild ;'],
  ]
  for (const records of permitting) t.is(refusal(records), null, records.join(', '))
  for (const records of [
    ['0 issue ;'],
    ['0 issue'],
    ['0 issue other.example'],
    ['0 issue notca.example'],
    ['0 issue ca.example.other.example'],
  ])
    t.regex(refusal(records) ?? '', /Add the record: example\.com CAA 0 issue "ca\.example"/, records.join(', '))
})

test('for a wildcard issuewild counts alone, where there is one', t => {
  t.is(refusal(['0 issue other.example', '0 issuewild ca.example'], true), null)
  t.regex(refusal(['0 issue ca.example', '0 issuewild ;'], true) ?? '', /CAA 0 issuewild/)
  t.is(refusal(['0 issue ca.example'], true), null)
  t.regex(refusal(['0 issue other.example'], true) ?? '', /CAA 0 issue "/)
})

test('a critical tag that nobody knows forbids all', t => {
  t.regex(refusal(['0 issue ca.example', '128 tbs x']) ?? '', /critical tag "tbs"/)
  t.regex(refusal(['255 tbs x']) ?? '', /critical tag/)
  t.is(refusal(['0 issue ca.example', '1 tbs x']), null)
})

test('an authority that does not look at these records is never refused by them', t => {
  t.is(caaRefusal({ foundAt: 'a.com', records: ['0 issue ;'] }, [], false), null)
})
