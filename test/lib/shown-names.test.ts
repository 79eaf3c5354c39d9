import test from 'ava'
import { asWritten, isShownName, readsAsWritten } from '../../lib/shown-names.ts'

const readable = ['Shop', 'Olá = 世界', 'متجر', 'חנות 2', '👩‍💻', 'नमस्ते', 'e\u0301']
const misleading: Record<string, string> = {
  'an override of the direction': 'shop\u202egpj.exe',
  'an embedding': 'a\u202bb',
  'an isolate': 'a\u2067b\u2069',
  'a mark of the direction': 'a\u200fb',
  'a line separator': 'a\u2028b',
  'a paragraph separator': 'a\u2029b',
  'a line feed': 'a\nb',
  'a tab': 'a\tb',
  'an escape': 'a\u001b[2Jb',
  'a control character of the upper half': 'a\u0085b',
}
const invisible: Record<string, string> = {
  nothing: '',
  'a space': ' ',
  'spaces of other widths': '\u00a0\u2003\u3000',
  'joiners only': '\u200b\u200d\u2060',
  'a filler': '\u3164',
  'an empty pattern of dots': '\u2800',
}

test('names of every script are accepted, including joined emoji', t => {
  for (const name of readable) {
    t.true(isShownName(name), name)
    t.is(asWritten(name), name)
  }
})

for (const [what, text] of Object.entries(misleading))
  test(`a text that does not read as written is not a name: ${what}`, t => {
    t.false(readsAsWritten(text))
    t.false(isShownName(text))
    t.true(readsAsWritten(asWritten(text)))
  })

for (const [what, text] of Object.entries(invisible))
  test(`an invisible text is not a name: ${what}`, t => t.false(isShownName(text)))
