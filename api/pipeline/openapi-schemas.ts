import { z } from 'zod'

export type Json = Record<string, unknown>

/** Ways in which a body may be completed, one of which it takes: JSON Schema of an object that says nothing of other fields. */
interface Form {
  properties?: Json
  required?: string[]
}

/**
 * JSON Schema of a zod schema. A field that says `openapi` in its meta is shown as that, itself a schema of JSON or of zod; an object
 * with `choices` is completed by one form of each. No meta leaks as a keyword.
 */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ jsonSchema }) {
      const { openapi, choices, ...rest } = jsonSchema as Json & { openapi?: Json | z.ZodType; choices?: Form[][] }
      const shown = choices ? completed(rest, choices) : shownAs(openapi, io)
      if (!shown) return
      for (const key of Object.keys(jsonSchema)) delete (jsonSchema as Json)[key]
      Object.assign(jsonSchema, shown)
    },
  })
  return json
}

function shownAs(openapi: Json | z.ZodType | undefined, io: 'input' | 'output'): Json | undefined {
  return openapi instanceof z.ZodType ? schemaOf(openapi, io) : openapi
}

/** Fields that a form describes are not described a second time. */
function completed(object: Json & Form, choices: Form[][]): Json {
  const told = new Set(choices.flat().flatMap(({ properties = {} }) => Object.keys(properties)))
  const others = Object.entries(object.properties ?? {}).filter(([name]) => !told.has(name))
  const required = object.required?.filter(name => !told.has(name))
  return {
    ...object,
    properties: Object.fromEntries(others),
    ...(required && { required }),
    allOf: choices.map(forms => ({ anyOf: forms })),
  }
}
