// Applies the stored theme before the first paint. Not a module, because modules run later.
try {
  const theme = JSON.parse(localStorage.getItem("linger.preferences") || "{}").theme;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the system's theme applies.
}
