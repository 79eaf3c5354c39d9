import test from 'ava'
import { username } from '../../../policy/accounts/usernames.ts'

const names = [
  ['Ana', 'Ana'],
  ['Ana Lima 2', 'Ana Lima 2'],
  ['João', 'João'],
  ['Joa\u0303o', 'João'],
  ['हिन्दी', 'हिन्दी'],
  ['王小明', '王小明'],
  ['x'.repeat(24), 'x'.repeat(24)],
  ['𠮷'.repeat(24), '𠮷'.repeat(24)],
  ['x'.repeat(25), null],
  ['', null],
  [' Ana', null],
  ['Ana ', null],
  ['Ana  Lima', null],
  ['Ana\u00a0Lima', null],
  ['Ana_Lima', null],
  ['Ana\nLima', null],
  ['<b>', null],
  ['\u0301a', null],
  ['a\0', null],
  ['\u3164', null],
] as const

for (const [text, name] of names)
  test(`a name: ${encodeURIComponent(text)}`, t => {
    t.is(username(text), name)
  })
