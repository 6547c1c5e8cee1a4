// A target needs a source; see tb_precompile.
