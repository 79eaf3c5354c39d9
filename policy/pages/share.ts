import type { PageText } from './page-text.ts'

type Texts = Record<'title' | 'intro' | 'password' | 'open' | 'wrong', string>

export const shareText: PageText<Texts> = {
  'pt-BR': {
    title: 'Senha necessária',
    intro: 'Quem compartilhou este arquivo o protegeu com uma senha.',
    password: 'Senha',
    open: 'Baixar',
    wrong: 'Esta senha não abre este link.',
  },
  'en-US': {
    title: 'Password required',
    intro: 'This file was shared with a password.',
    password: 'Password',
    open: 'Download',
    wrong: 'The password is wrong.',
  },
  'es-ES': {
    title: 'Se necesita una contraseña',
    intro: 'Quien compartió este archivo lo protegió con una contraseña.',
    password: 'Contraseña',
    open: 'Descargar',
    wrong: 'Esta contraseña no abre este enlace.',
  },
  'zh-CN': {
    title: '需要密码',
    intro: '分享此文件的人设置了密码保护。',
    password: '密码',
    open: '下载',
    wrong: '此密码无法打开该链接。',
  },
  'ja-JP': {
    title: 'パスワードが必要です',
    intro: 'このファイルは、共有した人によってパスワードで保護されています。',
    password: 'パスワード',
    open: 'ダウンロード',
    wrong: 'このパスワードではリンクを開けません。',
  },
  'fr-FR': {
    title: 'Mot de passe requis',
    intro: "La personne qui a partagé ce fichier l'a protégé par un mot de passe.",
    password: 'Mot de passe',
    open: 'Télécharger',
    wrong: "Ce mot de passe n'ouvre pas ce lien.",
  },
  'de-DE': {
    title: 'Passwort nötig',
    intro: 'Wer diese Datei geteilt hat, hat sie mit einem Passwort geschützt.',
    password: 'Passwort',
    open: 'Herunterladen',
    wrong: 'Dieses Passwort öffnet diesen Link nicht.',
  },
  'it-IT': {
    title: 'Serve una password',
    intro: 'Chi ha condiviso questo file lo ha protetto con una password.',
    password: 'Password',
    open: 'Scarica',
    wrong: 'Questa password non apre questo link.',
  },
}
